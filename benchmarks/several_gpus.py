"""Measure the gain of a worker for each GPU, and its cost in precision.

python -m benchmarks.several_gpus measure --out FILE [--runs 5] [--gpus 1 2] [-- PYTEST ARGUMENTS]  # on GPUs
python -m benchmarks.several_gpus join FILE FILE --out FILE                                         # anywhere
python -m benchmarks.several_gpus table FILE                                                        # anywhere

The suites run on each number of GPUs in turn, by default one and all. The code stays the same, so that every
verdict but `pass`, `new` and `inconclusive` is a false alarm. The spread of a test over the runs, next to
idle and to busy neighbours, shows if these disturb its time.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

import msgspec

from benchmarks import results_file
from benchmarks.children import ROOT, say
from benchmarks.markdown import provenance, table
from pytest_gpuperf.records import Environment, Record
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.records.run_store import load_run

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = 1
RUNS = 5
FALSE_ALARMS = ("regressed", "improved")


class Session(Record, frozen=True, kw_only=True):
    """One run of the suites."""

    gpus: int
    wall_s: float
    verdicts: dict[str, int]
    times_us: dict[str, float]
    """By test and label, on the card `cards` names."""
    cards: dict[str, str]
    """UUID of the card, by test."""


class Results(Record, frozen=True, kw_only=True):
    """Results of one run of the benchmark."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment
    sessions: tuple[Session, ...]


def source(results: Results) -> str:
    """Return the GPUs, the versions and the date."""
    most = max(session.gpus for session in results.sessions)
    return f"{most} x {provenance(results.environment, results.date)}.\n"


def summary_table(results: Results) -> str:
    """Format a row for each number of GPUs: wall time, gain, false alarms, and the usual spread of a test."""
    rows = []
    by_gpus = {n: [one for one in results.sessions if one.gpus == n] for n in _numbers(results)}
    alone_s = fmean(one.wall_s for one in by_gpus[min(by_gpus)])
    for gpus, sessions in by_gpus.items():
        wall_s = fmean(one.wall_s for one in sessions)
        verdicts: Counter[str] = sum((Counter(one.verdicts) for one in sessions), Counter())
        alarms = sum(verdicts[name] for name in FALSE_ALARMS)
        spread = spread_pct(sessions)
        shown = f"{median(spread):.2f} %" if spread else "—"
        row = (str(gpus), str(len(sessions)), f"{wall_s:.0f}", f"{alone_s / wall_s:.2f}")
        rows.append((*row, f"{alarms} of {sum(verdicts.values())}", str(verdicts["inconclusive"]), shown))
    titles = ("GPUs", "runs", "s", "gain", "false alarms", "inconclusive", "SD on a card")
    return table(titles, rows)


def spread_pct(sessions: list[Session]) -> list[float]:
    """Return the standard deviation over sessions of each test's time on one card, in percent.

    Cards differ, so times of another card are another sample.
    """
    samples: dict[tuple[str, str], list[float]] = {}
    for session in sessions:
        for name, time_us in session.times_us.items():
            samples.setdefault((name, session.cards[name.partition(" ")[0]]), []).append(time_us)
    return [100 * stdev(times) / fmean(times) for times in samples.values() if len(times) > 1]


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)


def _numbers(results: Results) -> list[int]:
    return sorted({session.gpus for session in results.sessions})


def joined(results: Sequence[Results]) -> Results:
    """Return the sessions of several runs as one; the first one's date and environment stay.

    Raises:
        SystemExit: They are of several models of GPU or several versions of torch.
    """
    results_file.refuse_several_machines(one.environment for one in results)
    sessions = tuple(session for one in results for session in one.sessions)
    return msgspec.structs.replace(results[0], sessions=sessions)


def measure(out: Path, runs: int, numbers: Sequence[int], arguments: list[str]) -> None:
    """Run the suites on each number of GPUs, in turn; the file is written after each run."""
    from pytest_gpuperf.measure.device.environment import environment
    from pytest_gpuperf.measure.device.gpu_identity import gpu_info
    from pytest_gpuperf.measure.device.visible_gpus import visible_gpus

    visible = len(visible_gpus())
    numbers = numbers or (1, max(2, visible))
    if visible < max(numbers):
        raise SystemExit(f"several_gpus: found {visible} GPUs; expected at least {max(numbers)}")
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    sessions: list[Session] = []
    for number in range(runs):
        for gpus in numbers:
            sessions.append(_session(gpus, arguments))
            say(f"run {number + 1} of {runs} on {gpus}: {sessions[-1].wall_s:.0f} s {sessions[-1].verdicts}")
            where = environment(gpu_info(), ROOT, "")
            results = Results(schema=SCHEMA, date=date, environment=where, sessions=tuple(sessions))
            write_files({out: results_file.encode(results)})


def _session(gpus: int, arguments: list[str]) -> Session:
    with tempfile.TemporaryDirectory(prefix="gpuperf-") as folder:
        verdicts = Path(folder, "verdicts.json")
        options = ("--gpuperf", f"-n{gpus}", f"--gpuperf-json={verdicts}", "-q")
        begin = time.monotonic()
        command = [sys.executable, "-m", "pytest", *options, *(arguments or ["suites"])]
        done = subprocess.run(command, cwd=ROOT, check=False)
        wall_s = time.monotonic() - begin
        if done.returncode not in (0, 1) or not verdicts.exists():
            raise SystemExit(f"several_gpus: pytest ended with exit status {done.returncode}")
    newest = max((ROOT / ".gpuperf" / "runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    return session_of(gpus, wall_s, newest)


def session_of(gpus: int, wall_s: float, path: Path) -> Session:
    """Take the verdicts and times of a run, judged by the committed baselines."""
    from pytest_gpuperf.baseline.run_verdicts import judge_run
    from pytest_gpuperf.baseline.store import BaselineStore

    run = load_run(path)
    results = judge_run(run, BaselineStore(ROOT / "baselines"))
    return Session(
        gpus=gpus,
        wall_s=wall_s,
        verdicts=dict(Counter(result.status.value for result in results)),
        times_us={
            f"{test.nodeid} ({label})": measured.timing.time_us
            for test in run.tests
            for label, measured in test.measurements.items()
            if measured.timing is not None
        },
        cards=run.cards,
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--out", type=Path, required=True)
    measuring.add_argument("--runs", type=int, default=RUNS)
    measuring.add_argument("--gpus", type=int, nargs="+", default=(), help="by default one and all")
    measuring.add_argument("arguments", nargs="*", help="pytest's, by default: suites")
    joining = commands.add_parser("join")
    joining.add_argument("files", type=Path, nargs="+", metavar="FILE")
    joining.add_argument("--out", type=Path, required=True)
    showing = commands.add_parser("table")
    showing.add_argument("file", type=Path)
    options = parser.parse_args()
    if options.command == "measure":
        measure(options.out, options.runs, options.gpus, options.arguments)
    elif options.command == "join":
        write_files({options.out: results_file.encode(joined([read(path) for path in options.files]))})
    else:
        results = read(options.file)
        print(f"{source(results)}\n{summary_table(results)}")


if __name__ == "__main__":
    main()
