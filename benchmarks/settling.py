"""Play changes of code in a user's project: a baseline, a commit, and a run in a fresh checkout.

python -m benchmarks.settling project FOLDER                # a project and its baseline of this card
python -m benchmarks.settling doses FILE --project FOLDER [--doses 0 5 10 20 50] [--tests NAME ...]    # in ‰
python -m benchmarks.settling unchanged FILE [--labels N]   # unchanged code in turn, until the time is up
python -m benchmarks.settling unchanged FILE --against python:PATH     # in a copy of this environment
python -m benchmarks.settling same-code FILE        # slower calls whose kernels keep code, grid and block
python -m benchmarks.settling table FILE ...

Each run has `CI=1`, a checkout of its own and no `.gpuperf`. Exit status 1: a case ended as it should not.
FILE gets the cases besides those that it has. Each card has a FILE of its own, so that four can run at once.
A FOLDER that another card made has a baseline of another card.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks import results_file
from benchmarks.children import ROOT, end_in_order_when_told, say
from benchmarks.markdown import model, table
from pytest_gpuperf.processes.git import run_git
from pytest_gpuperf.records import Environment, Record
from pytest_gpuperf.records.baseline import Baseline
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.records.run_store import load_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Row = tuple[str, str, str, str]
    """Change, model, baseline and load of the host."""

SCHEMA = 2
NINE = (
    "arithmetic 3 µs",
    "arithmetic 50 µs",
    "arithmetic that waits",
    "copy 33 MB",
    "copy 33 MB, cold",
    "row sum",
    "embedding gather",
    "layer norm",
    "cross entropy",
)
"""Kernels of `benchmarks.gate_power` whose time follows their work, one for each class."""
DOSED = """
import pytest
import torch
from benchmarks.gate_power.layers import build_again, modes
from dose import PERMILLE

@pytest.mark.parametrize("names", {groups!r}, ids=",".join)
def test_dosed(gpuperf, names):
    count = torch.cuda.get_device_properties(0).multi_processor_count
    for name in names:
        label = name if len(names) > 1 else "main"
        gpuperf.time(build_again(name, PERMILLE, count), mode=modes()[name], label=label)
"""
SAME_CODE = """
import time, torch, triton, triton.language as tl
from change import CLONE, LOOPS, SERIAL, SLEEP

@triton.jit(do_not_specialize=["loops"])
def repeat_kernel(x, o, n, loops, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    best = tl.full((B,), float("-inf"), tl.float32)
    for _ in range(loops):
        best = tl.maximum(best, tl.load(x + at, mask=at < n, other=0.0, volatile=True))
    tl.store(o + at, best, mask=at < n)

def repeat(x, loops):
    o = torch.empty_like(x)
    repeat_kernel[(triton.cdiv(x.numel(), 1024),)](x, o, x.numel(), loops, B=1024)
    return o

SIDE = []

def twice(x):
    main = torch.cuda.current_stream()
    SIDE or SIDE.append(torch.cuda.Stream())
    other = main if SERIAL else SIDE[0]
    other.wait_stream(main)
    with torch.cuda.stream(other):
        a = repeat(x, 2001)
    b = repeat(x, 2001)
    main.wait_stream(other)
    return a, b

def late(x):
    time.sleep(SLEEP)
    return repeat(x, 35)

def test_copy(gpuperf):
    x = torch.randn(1 << 24, device=gpuperf.device)
    gpuperf(lambda x: repeat(x.clone() if CLONE else x, 3), x, expected=lambda x: x)

def test_loops(gpuperf):
    x = torch.randn(1 << 24, device=gpuperf.device)
    gpuperf(lambda x: repeat(x, LOOPS), x, expected=lambda x: x)

def test_streams(gpuperf):
    x = torch.randn(1 << 15, device=gpuperf.device)
    gpuperf(twice, x, expected=lambda x: (x, x))

def test_host(gpuperf):
    x = torch.randn(1 << 15, device=gpuperf.device)
    gpuperf(late, x, expected=lambda x: x, mode="host")
"""
CHANGES = {"CLONE": (0, 1), "LOOPS": (35, 70), "SERIAL": (0, 1), "SLEEP": (0, 0.001)}
"""Values of `change.py`, before and after the change that makes each test of `SAME_CODE` slower."""
OF_TEST = {"CLONE": "test_copy", "LOOPS": "test_loops", "SERIAL": "test_streams", "SLEEP": "test_host"}


class Case(Record, frozen=True, kw_only=True):
    """One time of one run in a fresh checkout."""

    change: str
    """Change of the commit: a dose in ‰, a name of `CHANGES`, or `unchanged`: compared with HEAD, or by
    `unchanged, another environment` with the same code there."""
    test: str
    """Test, and the label if it has several."""
    verdict: str
    how: str
    """How its suspect was settled; empty if it was none."""
    change_pct: float | None = None
    """Change in turn, or from the baseline if the time is within the screen; None without a comparison."""
    restarts: int = 0
    seconds: float
    """Seconds of the settlement."""
    session_s: float
    """Seconds of the whole command, with all its tests."""
    exit_status: int


class Part(Record, frozen=True, kw_only=True):
    """Results of one call of the benchmark, on one card."""

    date: str
    """UTC, ISO 8601."""
    environment: Environment
    baseline: str
    """`same card`, `other card`, or `none`."""
    busy_neighbours: int | None = None
    """Number of other GPUs of the host that were at work; None if unknown."""
    cases: tuple[Case, ...]


class Results(Record, frozen=True, kw_only=True):
    """Results of several calls."""

    schema: int
    parts: tuple[Part, ...]


class Project:
    """A repository with kernels, their tests and the baseline of one session.

    Args:
        folder: The folder for it; one that has a project is used as it is.
        files: Text of its files.
        baseline: True to run it once for a baseline.
    """

    def __init__(self, folder: Path, files: Mapping[str, str], *, baseline: bool = True) -> None:
        self._folder = folder
        self.root = folder / "repo"
        if self.root.exists():
            return
        self.root.mkdir(parents=True)
        run_git(self.root, "init", "-q", "-b", "main")
        self.commit(
            self.root,
            {
                "pyproject.toml": "[tool.pytest.ini_options]\n",
                ".gitignore": ".gpuperf\nverdicts.json\n",
                **files,
            },
        )
        if baseline:
            status, _, output = self._pytest(self.root, "--gpuperf-update=all", environment={})
            if status:
                raise SystemExit(f"the first run failed:\n{output}")
            self.commit(self.root, {})

    def cards(self) -> set[str]:
        """Return the UUIDs of the GPUs of the baseline."""
        paths = self.root.glob("baselines/*/*.json")
        baselines = [msgspec.json.decode(path.read_bytes(), type=Baseline) for path in paths]
        return {note.gpu_uuid for baseline in baselines for note in baseline.runs.values()}

    def commit(self, root: Path, files: Mapping[str, str]) -> None:
        """Write files of a checkout, and commit all of it."""
        for name, text in files.items():
            (root / name).write_text(text)
        run_git(root, "add", "--all")
        run_git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "Change", "--allow-empty")

    def cases(self, change: str, files: Mapping[str, str], *options: str) -> list[Case]:
        """Run the tests in a fresh checkout with a commit that changes files."""
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            root = Path(name) / "fresh"
            run_git(self._folder, "clone", "-q", str(self.root), str(root))
            self.commit(root, files)
            status, seconds, output = self._pytest(root, *options, environment={"CI": "1"})
            runs = list(root.glob(".gpuperf/runs/*/run.json"))
            if not runs:
                raise SystemExit(f"{change}: the run failed:\n{output}")
            say(f"{change}: exit status {status} after {seconds:.0f} s")
            for line in output.splitlines():
                if " slower: " in line or " faster: " in line or "gpuperf: " in line:
                    say(f"    {line.strip()}")
            judged = json.loads((root / "verdicts.json").read_text())["tests"]
            return list(_cases(change, runs[0], {one["nodeid"]: one for one in judged}, seconds, status))

    def _pytest(self, root: Path, *options: str, environment: Mapping[str, str]) -> tuple[int, float, str]:
        plain = {name: value for name, value in os.environ.items() if name not in ("CI", "GITHUB_ACTIONS")}
        plain["PYTHONPATH"] = os.pathsep.join([str(ROOT), plain.get("PYTHONPATH", "")])
        fixed = ("--gpuperf", "--gpuperf-counters=off", "-v", "-p", "no:cacheprovider")
        command = [
            sys.executable,
            "-m",
            "pytest",
            *fixed,
            f"--gpuperf-json={root / 'verdicts.json'}",
            *options,
        ]
        begin = time.monotonic()
        done = subprocess.run(command, cwd=root, env={**plain, **environment}, capture_output=True, text=True)
        return done.returncode, time.monotonic() - begin, done.stdout + done.stderr


def _cases(name: str, path: Path, judged: Mapping[str, Any], session_s: float, status: int) -> Iterator[Case]:
    for test in load_run(path).tests:
        for label, measured in test.measurements.items():
            settlement, found = measured.settlement, judged[test.nodeid]["measurements"][label]
            change = found["change"]
            pair = settlement.against if settlement is not None else None
            alone = label == "main"
            yield Case(
                change=name,
                test=test.nodeid.partition("::")[2] + ("" if alone else f" ({label})"),
                verdict=judged[test.nodeid]["verdict"] if alone else found["verdict"],
                how=f"{settlement.how} {settlement.reason}".strip() if settlement is not None else "",
                change_pct=round(change["decision"]["change_pct"], 3) if change else None,
                restarts=len(pair.log_ratios) if pair is not None else 0,
                seconds=settlement.seconds if settlement is not None else 0.0,
                session_s=round(session_s, 1),
                exit_status=status,
            )


def dosed(names: Sequence[str], labels: int) -> dict[str, str]:
    """Return the files of a project whose tests time so many kernels each."""
    groups = [tuple(names[at : at + labels]) for at in range(0, len(names), labels)]
    return {"dose.py": "PERMILLE = 0\n", "test_dosed.py": DOSED.format(groups=groups)}


def doses(project: Project, permille: Sequence[int], names: Sequence[str], minutes: float) -> Iterator[Case]:
    """Add work to all kernels at once, dose by dose, until the time is up."""
    end = time.monotonic() + 60 * minutes
    tests = [f"test_dosed.py::test_dosed[{name.encode('unicode_escape').decode()}]" for name in names]
    for dose in permille:
        if time.monotonic() < end:
            files = {"dose.py": f"PERMILLE = {dose}\n", "note.txt": ""}
            yield from project.cases(f"+{dose / 10:g} %", files, *tests)


def same_code(project: Project) -> Iterator[Case]:
    """Make each test of `SAME_CODE` slower without another machine code of a kernel."""
    for change, test in OF_TEST.items():
        yield from project.cases(change, {"change.py": values(change)}, "-k", test)


def values(changed: str) -> str:
    """Return the text of `change.py` after one change, or before any."""
    return "".join(f"{name} = {both[name == changed]}\n" for name, both in CHANGES.items())


def unchanged(project: Project, minutes: float, against: str) -> Iterator[Case]:
    """Compare unchanged code in turn with itself until the time is up."""
    end = time.monotonic() + 60 * minutes
    took = 0.0
    while time.monotonic() + took < end:
        begin = time.monotonic()
        change = "unchanged" if against == "HEAD" else "unchanged, another environment"
        yield from project.cases(change, {}, f"--gpuperf-against={against}")
        took = time.monotonic() - begin


def is_right(case: Case) -> bool:
    """Return True if a case ended as it should: small doses may pass, unchanged code may not change."""
    if case.change == "+0 %" or case.change.startswith("unchanged"):
        return case.verdict in ("pass", "new")
    if case.change.startswith("+"):
        return case.verdict == "regressed" or (case.verdict == "pass" and case.change == "+0.5 %")
    return case.verdict == "regressed" and case.exit_status == 1


def report(found: Sequence[Part]) -> str:
    """Format a row for each change, baseline and load of the host: verdicts, suspects, seconds."""
    groups: dict[Row, list[Case]] = {}
    cards: dict[Row, set[str]] = {}
    for part in found:
        busy = "?" if part.busy_neighbours is None else str(part.busy_neighbours)
        for case in part.cases:
            change = "same kernels" if case.change in CHANGES else case.change
            row = (change, model(part.environment.gpu.name), part.baseline.removesuffix(" card"), busy)
            groups.setdefault(row, []).append(case)
            cards.setdefault(row, set()).add(part.environment.gpu.uuid)
    rows = []
    for group, cases in groups.items():
        suspects = [case.seconds for case in cases if case.how]
        verdicts = Counter(case.verdict for case in cases).most_common()
        words = ", ".join(f"{count} {name}" for name, count in verdicts)
        each = f"{sum(suspects) / len(suspects):.1f}" if suspects else ""
        rows.append([*group, str(len(cards[group])), words, str(len(suspects)), each])
    titles = ["change", "GPU", "baseline's card", "busy neighbours", "cards", "verdicts", "suspects"]
    return table([*titles, "s a suspect"], rows)


def source(found: Sequence[Part]) -> str:
    """Return the GPUs and the versions, each with the commits and dates of its runs."""
    groups: dict[str, list[Part]] = {}
    for part in found:
        tools = part.environment.toolchain
        versions = f"driver {tools.driver}, torch {tools.torch}, triton {tools.triton}"
        groups.setdefault(f"{part.environment.gpu.name}, {versions}", []).append(part)
    texts = []
    for group, parts in groups.items():
        commits = dict.fromkeys(part.environment.commit[:7] for part in parts)
        dates = dict.fromkeys(part.date[:10] for part in parts)
        texts.append(f"{group}, commit {', '.join(commits)}, {', '.join(dates)}")
    return f"{'; '.join(texts)}.\n"


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)


def parts(paths: Sequence[Path]) -> list[Part]:
    """Read the parts of several files."""
    return [part for path in paths for part in read(path).parts]


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.settling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("project", "doses", "same-code", "unchanged", "table"))
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--project", type=Path, metavar="FOLDER", help="made before; default: a new one")
    parser.add_argument("--doses", type=int, nargs="+", default=[0, 5, 10, 20, 50], metavar="PERMILLE")
    parser.add_argument(
        "--tests", nargs="+", default=NINE, metavar="NAME", help="kernels of benchmarks.gate_power"
    )
    parser.add_argument("--labels", type=int, default=1, help="kernels that a test of `unchanged` times")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--against", default="HEAD", help="what unchanged code is compared with")
    parser.add_argument("--busy-neighbours", type=int, metavar="N", help="other GPUs of the host at work")
    given = parser.parse_args()
    if given.command == "table":
        found = parts(given.files)
        print(report(found) + source(found))
        return
    end_in_order_when_told()
    if given.command == "project":
        Project(given.files[0], dosed(given.tests, 1))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = given.project or Path(name)
        if given.command == "doses":
            project = Project(folder, dosed(given.tests, 1))
            cases = doses(project, given.doses, given.tests, given.minutes)
        elif given.command == "same-code":
            project = Project(folder, {"change.py": values(""), "test_same.py": SAME_CODE})
            cases = same_code(project)
        else:
            project = Project(folder, dosed(given.tests, given.labels), baseline=False)
            cases = unchanged(project, given.minutes, given.against)
        part = _keep(cases, given.files[0], project.cards(), given.busy_neighbours)
    print(report([part]) + source([part]))
    sys.exit(not all(map(is_right, part.cases)))


def _keep(cases: Iterable[Case], path: Path, baseline: set[str], busy: int | None) -> Part:
    """Write each case to the file as it comes, after those that it has; return the new part."""
    from pytest_gpuperf.measure.device.environment import environment
    from pytest_gpuperf.measure.device.gpu_identity import gpu_info

    gpu = gpu_info()
    before = read(path).parts if path.exists() else ()
    part = Part(
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        environment=environment(gpu, ROOT, ""),
        baseline="none" if not baseline else "same card" if baseline == {gpu.uuid} else "other card",
        busy_neighbours=busy,
        cases=(),
    )
    for case in cases:
        part = msgspec.structs.replace(part, cases=(*part.cases, case))
        results = Results(schema=SCHEMA, parts=(*before, part))
        write_files({path: results_file.encode(results)})
    return part


if __name__ == "__main__":
    main()
