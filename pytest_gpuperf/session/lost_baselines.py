"""Tests and baselines that have lost each other: renamed suites, ids by index, paths through links."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.processes.git import GitError, run_git
from pytest_gpuperf.records.baseline import Baseline, suite_of
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.records.run import STATIC_SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

    import pytest

    from pytest_gpuperf.baseline.store import BaselineStore, Expectations
    from pytest_gpuperf.session.judge import Judge

_BY_INDEX = re.compile(r"(?<=[\[-])[A-Za-z_]+(\d+)(?=[\]-])")
"""Part of an id that pytest makes of the name of a parameter and the place of its value: `cfg0`."""


def known_name(item: pytest.Item, root: Path, knows: Callable[[str], bool]) -> str:
    """Return the node id by which baselines and recordings know a test.

    Args:
        item: A test that is reached through a symbolic link, so that it has another node id than its file.
        root: pytest's rootdir.
        knows: Returns True if the run has anything to compare a test with.
    """
    if knows(item.nodeid):
        return item.nodeid
    name = name_of_file(item.nodeid, root, item.path)
    # pytest names no file outside of its rootdir.
    return name if knows(name) or item.nodeid.startswith("::") else item.nodeid


def name_of_file(nodeid: str, root: Path, path: Path | None = None) -> str:
    """Return the node id that a test has by the real path of its file.

    Args:
        nodeid: The node id that pytest gives.
        root: pytest's rootdir.
        path: The file; by default the one in the node id.
    """
    file, separator, rest = nodeid.partition("::")
    real, folder = (path or root / file).resolve(), root.resolve()
    return f"{real.relative_to(folder).as_posix()}{separator}{rest}" if folder in real.parents else nodeid


def orphans(config: pytest.Config, judge: Judge, collected: Collection[str]) -> list[str]:
    """Describe each baseline file whose tests are all gone, of those that this run is about.

    With `--gpuperf-strict` one that is gone is enough.

    Args:
        config: pytest's.
        judge: The judge of the run.
        collected: Node ids of all tests and files that pytest collected, also if options deselect them.
    """
    # Tests that `-k`, `-m` and others leave out are collected, too, but not those of `--lf`.
    some = getattr(config.option, "lf", False) or any("::" in argument for argument in config.args)
    if some or judge.settings.update != "never":
        return []
    folder = config.invocation_params.dir
    asked = [(folder / argument).resolve() for argument in config.args]
    files = {nodeid.partition("::")[0] for nodeid in collected}

    def is_gone(nodeid: str, suite: str) -> bool:
        file = nodeid.partition("::")[0]
        path = (judge.settings.root / file).resolve()
        if file in files:
            # The test of another file is compared with the baseline of that name.
            return nodeid not in collected or PurePosixPath(file).stem != suite
        return not path.exists() and any(one == path or one in path.parents for one in asked)

    found = []
    for path, baseline in _baselines(judge.expected.store, judge.environment.gpu.slug):
        gone = [nodeid for nodeid in baseline.tests if is_gone(nodeid, path.stem)]
        whole = len(gone) == len(baseline.tests)
        if gone and (whole or judge.settings.strict):
            removes = f"git rm {show_path(path)}" if whole else f"gpuperf baseline remove {shlex.join(gone)}"
            found.append(
                f"{show_path(path)} has baselines of {len(gone)} tests that do not exist in a "
                f"{path.stem}.py, such as {gone[0]}; expected the names of tests; if they have new names, "
                "replace the old ones in this file, and name it as the test file, "
                f"otherwise type `{removes}`{'' if whole else ', which removes them for all GPUs'}"
            )
    return found


def shifted(config: pytest.Config, judge: Judge, collected: Collection[str]) -> list[str]:
    """Describe the tests whose ids by index may name other values than in the baseline.

    Args:
        config: pytest's.
        judge: The judge of the run.
        collected: Node ids of all tests and files that pytest collected, also if options deselect them.
    """
    if judge.settings.update != "never" or any("::" in argument for argument in config.args):
        return []
    now = _indexes(collected)
    baselines = _baselines(judge.expected.store, judge.environment.gpu.slug) if now else ()
    before = _indexes(nodeid for _, baseline in baselines for nodeid in baseline.tests)
    return [
        f"{place} has {now[place]} values, and {number} in the baseline: ids by index may name others there; "
        "give the values ids of their own (`ids=` of parametrize), and accept the new baseline"
        for place, number in before.items()
        if now.get(place, number) != number
    ]


def _indexes(nodeids: Iterable[str]) -> dict[str, int]:
    """Return the number of ids by index by the node id with `*` in their place, if they count from 0."""
    found: dict[str, set[int]] = defaultdict(set)
    for nodeid in nodeids:
        for part in _BY_INDEX.finditer(nodeid):
            found[f"{nodeid[: part.start(1)]}*{nodeid[part.end() :]}"].add(int(part[1]))
    return {place: len(some) for place, some in found.items() if some == set(range(len(some)))}


def is_shallow(root: Path) -> bool:
    """Return True if the history of a checkout is cut off."""
    with suppress(GitError):
        return run_git(root, "rev-parse", "--is-shallow-repository").strip() == b"true"
    return False


def last_commit(expected: Expectations, slug: str, nodeid: str, labels: Collection[str]) -> str:
    """Return the last commit up to HEAD whose baselines have what a test has lost since; else empty.

    Args:
        expected: The present baselines.
        slug: Folder of the baselines.
        nodeid: The test.
        labels: Labels that are new, or of which the time is.
    """
    baseline, path = expected.of(nodeid, slug), expected.store.path(slug, suite_of(nodeid))
    kept = baseline.measurements if baseline is not None else {}
    # git finds those that brought a test, or removed it, at once.
    only = [] if kept else [f"-S{json.dumps(nodeid, ensure_ascii=False)}"]
    with suppress(GitError):
        where = next(parent for parent in path.parents if parent.is_dir())
        name = path.relative_to(where).as_posix()
        # By default git leaves out the side of a merge whose file was not taken.
        commits = run_git(where, "log", "--full-history", "--format=%h", *only, "HEAD", "--", name)
        for commit in commits.decode().split():
            with suppress(GitError, msgspec.MsgspecError):  # removed by this commit, or broken
                file = msgspec.json.decode(run_git(where, "show", f"{commit}:./{name}"), type=Baseline)
                known = file.tests[nodeid].measurements if nodeid in file.tests else {}
                # Of a label that stays, the time is gone.
                if any(one in known and (one not in kept or known[one].time) for one in labels):
                    return commit
    return ""


def _baselines(store: BaselineStore, gpu: str) -> Iterator[tuple[Path, Baseline]]:
    for slug in dict.fromkeys((gpu, STATIC_SOURCE)):  # without a GPU they are one
        for suite in store.suites(slug):
            with suppress(GpuperfError):  # one that the selected tests do not need
                if (baseline := store.load(slug, suite)) is not None:
                    yield store.path(slug, suite), baseline
