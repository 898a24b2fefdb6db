"""Try the defences of times: exploits, honest callables and cost.

python -m benchmarks.defences measure --out benchmarks/results/defences.json --minutes 10    # on a GPU
python -m benchmarks.defences table benchmarks/results/defences.json                          # anywhere

`--only honest --part 2/3 --out FILE` measures a part, on another GPU of the same model, say;
`join OUT FILE...` puts the parts of one commit together.

Each exploit and each honest callable is a test of an inner `pytest --gpuperf` session with short timings. The
cost compares sessions with the usual timings, with the defences and without them, in turn.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import time
from itertools import chain
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec.structs import replace

from benchmarks import results_file
from benchmarks.defences.results import (
    NOT_IN_THIS_MODE,
    PART,
    SCHEMA,
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
HONEST = "from benchmarks.defences.honest import test_callable\n"
COSTS = "from benchmarks.defences.costs import test_usual\n"
KINDS = ("exploits", "costs", "honest")
LONGEST_MESSAGE = 160
EXPLOITS_SHARE, COSTS_SHARE = 0.7, 0.95
"""Parts of the remaining time that they may take; the honest callables have the rest."""


def exploits(folder: Path, seconds: float) -> list[Tried]:
    """Run the exploits."""
    import exploits.inner  # noqa: F401 - fills the list
    from exploits.case import EXPLOITS
    from exploits.verdicts import EXPLOITS_AND_TWINS, honest_us, run, verdict

    outcomes = run(folder, EXPLOITS_AND_TWINS, timeout_s=seconds)
    honest = honest_us(outcomes)
    found = []
    for one in outcomes:
        if one.test == "test_exploit":
            exploit = EXPLOITS[one.name]
            result = verdict(one, honest.get((exploit.shape, one.mode), 0.0))
            found.append(_tried(one, result, exploit.theme))
    return found


def honest(folder: Path, seconds: float, part: str) -> list[Tried]:
    """Run the honest callables of a part."""
    from exploits.verdicts import run

    os.environ[PART] = part
    return [_tried(one, fate(one)) for one in run(folder, HONEST, timeout_s=seconds)]


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


def _tried(one: Outcome, result: str, theme: str = "") -> Tried:
    return Tried(
        name=one.name,
        mode=one.mode,
        result=result,
        message=one.message[:LONGEST_MESSAGE],
        theme=theme,
        time_us=round(one.time_us, 3),
        seconds=one.seconds,
    )


def fate(one: Outcome) -> str:
    """Return `passed`, `other mode` if the mode cannot time the callable, or `accused`."""
    if one.passed:
        return "passed"
    return "other mode" if any(part in one.message for part in NOT_IN_THIS_MODE) else "accused"


def measure(out: Path, minutes: float, only: tuple[str, ...], part: str) -> None:
    """Run what is named in `only`, and write the results after each."""
    from pytest_gpuperf.measure.device.device_properties import gpu_info
    from pytest_gpuperf.measure.device.environment import environment

    end = time.monotonic() + 60 * minutes

    def left(share: float) -> float:
        return share * (end - time.monotonic())

    results = Results(
        schema=SCHEMA,
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        environment=environment(gpu_info(), ROOT, ""),
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        if "exploits" in only:
            results = replace(results, exploits=tuple(exploits(folder / "exploits", left(EXPLOITS_SHARE))))
            write_files({out: results_file.encode(results)})
        if "costs" in only:
            results = replace(results, costs=tuple(costs(folder / "costs", left(COSTS_SHARE))))
            write_files({out: results_file.encode(results)})
        if "honest" in only:
            results = replace(results, honest=tuple(honest(folder / "honest", left(1), part)))
            write_files({out: results_file.encode(results)})
        for log in folder.glob("*/log"):
            lines = log.read_text(encoding="utf-8").splitlines()
            print(f"{log.parent.name}: {lines[-1] if lines else 'no output'}")


def join(out: Path, files: list[Path]) -> None:
    """Put the parts of one commit together."""
    parts = [read(file) for file in files]
    first = parts[0]
    if len({(one.environment.commit, one.environment.gpu.name) for one in parts}) > 1:
        raise SystemExit("the files come from several commits or models of GPU; measure all of them again")
    joined = replace(
        first,
        exploits=tuple(chain.from_iterable(one.exploits for one in parts)),
        honest=tuple(chain.from_iterable(one.honest for one in parts)),
        costs=tuple(chain.from_iterable(one.costs for one in parts)),
    )
    write_files({out: results_file.encode(joined)})


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
    measuring.add_argument("--part", default="1/1", metavar="I/N", help="of the honest callables")
    joining = commands.add_parser("join", help="put parts together")
    joining.add_argument("file", type=Path)
    joining.add_argument("files", type=Path, nargs="+")
    commands.add_parser("table", help="print the tables").add_argument("file", type=Path)
    chosen = parser.parse_args()
    # The exploits belong to the tests.
    sys.path.insert(0, str(ROOT / "tests"))
    if chosen.command == "measure":
        measure(chosen.out, chosen.minutes, tuple(chosen.only or KINDS), chosen.part)
        print(show(chosen.out))
    elif chosen.command == "join":
        join(chosen.file, chosen.files)
    else:
        print(show(chosen.file))


if __name__ == "__main__":
    main()
