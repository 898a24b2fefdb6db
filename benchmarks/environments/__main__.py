"""Compare environments in turn: public regressions of compilers and libraries, and equal environments.

python -m benchmarks.environments FILE CASE=OLD[,NEW] ... [--pairs 100]    # on GPUs: adds to the file
python -m benchmarks.environments FILE                                     # anywhere: prints the tables

CASE is `same` or another test file of this folder. OLD and NEW are virtual environments, or programs of
Python, with what pytest-gpuperf needs; NEW is by default that of this process. Of equal environments every
verdict but `pass` and `inconclusive` is a false alarm. A case runs on one GPU; all GPUs share `same`.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import msgspec

from benchmarks import results_file
from benchmarks.children import say
from benchmarks.markdown import provenance, table
from pytest_gpuperf.against.interpreter import PREFIX, parse
from pytest_gpuperf.features.export.verdict_json import JudgedTest, Verdicts
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.measure.device.visible_gpus import visible_gpus
from pytest_gpuperf.records import Environment, Record
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.statistics.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = 1
FOLDER = Path(__file__).parent
SAME = "same"
PAIRS = 100
PARTS = 2
"""Runs of `same` for each GPU."""
ISSUE = re.compile(r"(\S+)#(\d+)")


class Compared(Record, frozen=True, kw_only=True):
    """A test in turn in both environments."""

    verdict: Status
    change: Decision | None = None
    """None if it was not compared."""
    findings: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    """Lines below the findings: the kernels that differ."""


class Case(Record, frozen=True, kw_only=True):
    """The tests of a file."""

    title: str
    """First line of the file."""
    differs: str
    """Packages that differ."""
    tests: dict[str, Compared]


class Results(Record, frozen=True, kw_only=True):
    """Results of the benchmark."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment
    """That of the new side of the last case."""
    cases: dict[str, Case]


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)


def measure(out: Path, cases: dict[str, tuple[str, ...]], pairs: int) -> None:
    """Run the cases, each on a GPU that is free; the file is written after each.

    Args:
        out: File that the results are added to.
        cases: Old and new environment by name.
        pairs: Number of tests of `same`.
    """
    if not (gpus := [gpu.uuid for gpu in visible_gpus()]):
        raise SystemExit("environments: found no GPU; expected at least one")
    free: SimpleQueue[str] = SimpleQueue()
    for gpu in gpus:
        free.put(gpu)
    parts = min(pairs, PARTS * len(gpus))
    jobs: list[tuple[str, tuple[str, ...]]] = [(name, (f"test_{name}.py",)) for name in cases if name != SAME]
    if SAME in cases:
        tests = [f"test_{SAME}.py::test_pair[{number}]" for number in range(pairs)]
        jobs += [(SAME, tuple(tests[part::parts])) for part in range(parts)]
    results = read(out) if out.exists() else None
    kept = {name: case for name, case in results.cases.items() if name not in cases} if results else {}
    with ThreadPoolExecutor(len(gpus)) as pool:
        running = {pool.submit(_verdicts, free, cases[name], tests): name for name, tests in jobs}
        for done in as_completed(running):
            name, found = running[done], done.result()
            if found is None:
                continue
            if results is not None:
                results_file.refuse_several_machines((results.environment, found.environment))
            case = case_of((FOLDER / f"test_{name}.py").read_text(encoding="utf-8"), found)
            if name in kept:
                case = msgspec.structs.replace(case, tests={**kept[name].tests, **case.tests})
            kept[name] = case
            date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
            results = Results(schema=SCHEMA, date=date, environment=found.environment, cases=kept)
            write_files({out: results_file.encode(results)})


def case_of(text: str, found: Verdicts) -> Case:
    """Take the results of a run of a test file."""
    differs = next((line for line in found.notices if line.startswith(PREFIX)), "")
    return Case(
        title=(ast.get_docstring(ast.parse(text)) or "").partition("\n")[0],
        differs=differs.removeprefix(PREFIX).partition(": ")[2],
        tests={
            **{
                _name(one.nodeid): Compared(verdict=Status.INVALID, findings=(one.message,))
                for one in found.unjudged
            },
            **{_name(test.nodeid): _compared(test) for test in found.tests},
        },
    )


def _name(nodeid: str) -> str:
    return nodeid.partition("::")[2]


def _compared(test: JudgedTest) -> Compared:
    (measured,) = test.measurements.values() or (None,)
    return Compared(
        verdict=test.verdict,
        change=measured.change.decision if measured is not None and measured.change is not None else None,
        findings=tuple(finding.line for finding in test.findings),
        details=tuple(line for finding in test.findings for line in finding.details),
    )


def _verdicts(free: SimpleQueue[str], sides: Sequence[str], tests: Sequence[str]) -> Verdicts | None:
    """Run tests on a GPU that is free, and print the output; None if pytest broke off."""
    old, new = (parse(PREFIX + side)[0] for side in sides)
    assert new is not None
    gpu = free.get()
    try:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "verdicts.json")
            options = ("--gpuperf", f"--gpuperf-against={PREFIX}{old}", f"--gpuperf-json={out}", "-q")
            done = subprocess.run(
                [new, "-m", "pytest", *options, *tests],
                cwd=FOLDER,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": gpu},
                capture_output=True,
                text=True,
                check=False,
            )
            say(f"{' '.join(tests)}\n{done.stdout}{done.stderr}exit status {done.returncode}")
            return msgspec.json.decode(out.read_bytes(), type=Verdicts) if out.exists() else None
    finally:
        free.put(gpu)


def same_summary(results: Results) -> str:
    """Return the verdicts on equal environments, the versions and the date."""
    same = results.cases.get(SAME)
    counts = Counter(test.verdict for test in same.tests.values()) if same is not None else Counter[str]()
    alarms = sum(
        number for verdict, number in counts.items() if verdict not in (Status.PASS, Status.INCONCLUSIVE)
    )
    origin, unsure = provenance(results.environment, results.date), counts[Status.INCONCLUSIVE]
    others = f", {unsure} inconclusive" if unsure else ""
    return f"{origin}: {alarms} false alarms in {counts.total()} tests of equal environments{others}.\n"


def regressions_table(results: Results) -> str:
    """Format a row for each public regression: what differs, and the changes of its tests."""
    rows = []
    for name, case in results.cases.items():
        if name != SAME:
            slower = sum(test.verdict is Status.REGRESSED for test in case.tests.values())
            changes = [_shown(test.change) for test in case.tests.values()]
            issue = ISSUE.sub(r"[\1#\2](https://github.com/\1/issues/\2)", case.title.partition(":")[0])
            rows.append((issue, case.differs, f"{slower}/{len(changes)}", ", ".join(changes)))
    return table(("regression", "packages", "slower tests", "changes, %"), rows)


def _shown(change: Decision | None) -> str:
    if change is None:
        return "?"
    return f"{change.change_pct:+.1f}±{(change.high_pct - change.low_pct) / 2:.1f}"


def main() -> None:
    """Measure, or print the tables."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.environments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("cases", nargs="*", metavar="CASE=OLD[,NEW]")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="tests of `same`")
    given = parser.parse_args()
    cases = {}
    for case in given.cases:
        name, _, sides = case.partition("=")
        cases[name] = (*sides.split(","), sys.executable)[:2]
        if not (FOLDER / f"test_{name}.py").exists() or not sides:
            parser.error(f"found {case}; expected CASE=OLD, such as same=PATH")
    if cases:
        measure(given.file, cases, given.pairs)
    results = read(given.file)
    print(f"{same_summary(results)}\n{regressions_table(results)}")
    for case in results.cases.values():
        for name, test in case.tests.items():
            if test.findings:
                print(f"{name}: {test.verdict.value}", *test.findings, *test.details, sep="\n    ")


if __name__ == "__main__":
    main()
