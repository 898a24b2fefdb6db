"""Try the defences of times: exploits and cost; `benchmarks.zoo` has the honest callables.

python -m benchmarks.defences measure --out benchmarks/results/defences.json --minutes 10    # on a GPU
python -m benchmarks.defences table benchmarks/results/defences.json                          # anywhere

Each exploit is a test of inner `pytest --gpuperf` sessions with short timings: one where doubts are warnings,
and one where they fail (`gpuperf_verify = strict`). The cost compares sessions with the usual timings, with
the defences and without them, in turn.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec.structs import replace

from benchmarks import results_file
from benchmarks.defences.results import (
    SCHEMA,
    VERIFY,
    Cost,
    Results,
    Tried,
    costs_table,
    exceptions,
    read,
    summary,
    themes_table,
)
from pytest_gpuperf.records.files import write_files

if TYPE_CHECKING:
    from exploits.verdicts import Outcome

ROOT = Path(__file__).parents[2]
COSTS = "from benchmarks.defences.costs import test_usual\n"
KINDS = ("exploits", "costs")
LONGEST_MESSAGE = 160


def exploits(folder: Path, seconds: float, verify: str) -> list[Tried]:
    """Run the exploits, with doubts as warnings (`auto`) or failures (`strict`)."""
    import exploits.inner  # noqa: F401 - fills the list
    from exploits.case import EXPLOITS
    from exploits.verdicts import EXPLOITS_AND_TWINS, honest_us, run, verdict

    outcomes = run(folder, EXPLOITS_AND_TWINS, f"-ogpuperf_verify={verify}", timeout_s=seconds)
    honest = honest_us(outcomes)
    found = []
    for one in outcomes:
        if one.test == "test_exploit":
            exploit = EXPLOITS[one.name]
            result = verdict(one, honest.get((exploit.shape, one.mode), 0.0))
            found.append(_tried(one, result, exploit.theme, verify))
    return found


def costs(folder: Path, seconds: float) -> list[Cost]:
    """Run honest tests with the usual timings, with the defences and without them, in turn."""
    from benchmarks.defences.costs import FIRST
    from exploits.verdicts import PLUGINS, run

    taken: dict[str, dict[str, list[float]]] = {"with": {}, "without": {}}
    for one in run(folder, COSTS, "-ogpuperf_budget=1", timeout_s=seconds, plugins=PLUGINS[:-1]):
        if one.passed and one.name != FIRST:
            taken[one.mode].setdefault(one.name, []).append(one.seconds)
    return [
        Cost(name=name, with_s=round(fmean(with_s), 3), without_s=round(fmean(taken["without"][name]), 3))
        for name, with_s in taken["with"].items()
        if name in taken["without"]
    ]


def _tried(one: Outcome, result: str, theme: str, verify: str) -> Tried:
    return Tried(
        name=one.name,
        mode=one.mode,
        result=result,
        message=one.message[:LONGEST_MESSAGE],
        theme=theme,
        verify=verify,
        time_us=round(one.time_us, 3),
        seconds=one.seconds,
    )


def measure(out: Path, minutes: float, only: tuple[str, ...]) -> None:
    """Run the parts in `only`, and write the results after each."""
    from pytest_gpuperf.measure.device.environment import environment
    from pytest_gpuperf.measure.device.gpu_identity import gpu_info

    end = time.monotonic() + 60 * minutes
    parts = [*(VERIFY if "exploits" in only else ()), *(("costs",) if "costs" in only else ())]
    results = Results(
        schema=SCHEMA,
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        environment=environment(gpu_info(), ROOT, ""),
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        for at, part in enumerate(parts):
            # Equal parts of the time that is left.
            seconds = (end - time.monotonic()) / (len(parts) - at)
            if part == "costs":
                results = replace(results, costs=tuple(costs(folder / part, seconds)))
            else:
                found = exploits(folder / part, seconds, part)
                results = replace(results, exploits=(*results.exploits, *found))
            write_files({out: results_file.encode(results)})
        for log in folder.glob("*/log"):
            lines = log.read_text(encoding="utf-8").splitlines()
            print(f"{log.parent.name}: {lines[-1] if lines else 'no output'}")


def show(path: Path) -> str:
    """Return all tables of a file."""
    results = read(path)
    return "\n".join((summary(results), themes_table(results), exceptions(results), costs_table(results)))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defences", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="run on a GPU")
    measuring.add_argument("--out", type=Path, required=True)
    measuring.add_argument("--minutes", type=float, default=10.0)
    measuring.add_argument("--only", action="append", choices=KINDS)
    commands.add_parser("table", help="print the tables").add_argument("file", type=Path)
    chosen = parser.parse_args()
    # The exploits belong to the tests.
    sys.path.insert(0, str(ROOT / "tests"))
    if chosen.command == "measure":
        measure(chosen.out, chosen.minutes, tuple(chosen.only or KINDS))
        print(show(chosen.out))
    else:
        print(show(chosen.file))


if __name__ == "__main__":
    main()
