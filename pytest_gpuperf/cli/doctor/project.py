"""Checks of the project and of the folders that its runs write to."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.doctor.check import absent, home, ok, problem, warning
from pytest_gpuperf.measure.static.kernel import SOURCE
from pytest_gpuperf.records.runs import STATE_FOLDER, newest_recordings

if TYPE_CHECKING:
    from pytest_gpuperf.cli.doctor.check import Finding
    from pytest_gpuperf.cli.doctor.machine import Machine
    from pytest_gpuperf.records.baseline import Baseline

FILES_COUNTED = 20_000
"""A cache is not worth more of anybody's time."""
LOW_BYTES = 2**30
TOO_LOW_BYTES = 100 * 2**20
"""ncu's report of one run takes tens of megabytes."""


def triton_cache(machine: Machine) -> Finding:
    """Where Triton keeps what it has compiled."""
    if folder := machine.environ.get("TRITON_CACHE_DIR"):
        return _cache(Path(folder), "TRITON_CACHE_DIR")
    above = machine.environ.get("TRITON_HOME") or home() or "~"
    return _cache(Path(above) / ".triton" / "cache", "TRITON_CACHE_DIR")


def inductor_cache(machine: Machine) -> Finding:
    """Where torch.compile keeps what it has compiled."""
    if folder := machine.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        return _cache(Path(folder), "TORCHINDUCTOR_CACHE_DIR")
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid_{os.getuid()}"
    # As torch._inductor.runtime.cache_dir_utils has it.
    name = re.sub(r'[\\/:*?"<>|]', "_", user)
    return _cache(Path(tempfile.gettempdir()) / f"torchinductor_{name}", "TORCHINDUCTOR_CACHE_DIR")


def _cache(folder: Path, variable: str) -> Finding:
    if not _writable(folder):
        return problem(
            "its folder cannot be written: kernels are compiled anew in each run, or not at all",
            f"export {variable}=FOLDER, one that you may write",
        )
    if not folder.exists():
        return ok("empty: the first run compiles")
    files, size = 0, 0
    for parent, _, names in os.walk(folder):
        for name in names:
            files += 1
            with suppress(OSError):  # removed since
                size += (Path(parent) / name).lstat().st_size
        if files > FILES_COUNTED:
            return ok(f"more than {_bytes(size)}")
    return ok(_bytes(size))


def disk(machine: Machine) -> Finding:
    """Room for run files and ncu's reports."""
    state = machine.project.root / STATE_FOLDER
    if not _writable(state):
        return problem(
            f"{STATE_FOLDER} cannot be written: no run can be kept",
            f"make {STATE_FOLDER} yours: chown, chmod",
        )
    free = shutil.disk_usage(_nearest(state)).free
    text = f"{_bytes(free)} free for {STATE_FOLDER}"
    fix = f"make room, or remove old runs below {STATE_FOLDER}/runs"
    if free < TOO_LOW_BYTES:
        return problem(text, fix)
    return warning(text, fix) if free < LOW_BYTES else ok(text)


def baselines(machine: Machine) -> Finding:
    """What there is to compare with on this GPU."""
    store = machine.project.store
    slugs = store.slugs()
    if machine.gpu is None:
        return ok(f"for {', '.join(slugs)}") if slugs else absent("none")
    slug = machine.gpu.slug
    if slug not in slugs:
        known = [other for other in slugs if other != SOURCE]
        others = f" (there are some for {', '.join(known)})" if known else ""
        return warning(f"none for {slug}{others}", "pytest --gpuperf --gpuperf-update=new")
    loaded = [store.load(slug, suite) for suite in store.suites(slug)]
    return ok(f"{slug}: {_counts([baseline for baseline in loaded if baseline])}")


def _counts(found: list[Baseline]) -> str:
    tests = [test for baseline in found for test in baseline.tests.values()]
    sessions = sorted(
        len(measurement.time.sessions)
        for test in tests
        for measurement in test.measurements.values()
        if measurement.time
    )
    text = f"{_number(len(found), 'suite')}, {_number(len(tests), 'test')}"
    if not sessions:
        return text
    few, many = sessions[0], sessions[-1]
    return f"{text}, {'' if few == many else f'{few} to '}{_number(many, 'session')} for each time"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def recordings(machine: Machine) -> Finding:
    """What a machine without a GPU replays."""
    runs = newest_recordings(machine.project.baselines)
    if runs:
        newest = runs[0]
        return ok(f"{len(runs)}, the newest of {newest.environment.gpu.name}, {newest.started_at[:10]}")
    fix = "gpuperf recording add (after a run on a GPU)"
    if machine.gpu is None:
        return warning("none: there is nothing to replay", fix)
    return absent("none: machines without a GPU have nothing to replay", fix)


def _nearest(folder: Path) -> Path:
    """The folder, or what of the way to it exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _writable(folder: Path) -> bool:
    return os.access(_nearest(folder), os.W_OK | os.X_OK)


def _bytes(count: int) -> str:
    """`340 kB`, `12 MB`, `3.4 GB`."""
    if count >= 10**9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 10**6 else f"{count / 1e3:.0f} kB"
