"""Check and time a zoo of honest callables: none may be refused, and times must be right.

python -m benchmarks.zoo FILE [--cases REGEX] [--modes hot cold auto] [--minutes M]    # on a GPU
python -m benchmarks.zoo FILE --shard 2/4       # a quarter, on another GPU
python -m benchmarks.zoo FILE... --table        # anywhere
python -m benchmarks.zoo --list

Each callable is checked, timed in each mode, and once more if that was not done by two of them (`auto` times
most callables hot). The reference of a time is the union of CUPTI's record intervals of single calls, with a
measured gap for each launch if the time includes the gaps.
Then a sample is timed alone in a fresh process, and another one in processes with other allocators and with
launches that block. The callables run in child processes: one that ends is replaced.

Exit status 1: a callable was refused or crashed, or fewer than 90 % of the times are right.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks import results_file
from benchmarks.children import ROOT, Child, ChildError, end_in_order_when_told, say
from benchmarks.zoo.cases import zoo
from benchmarks.zoo.child import Order
from benchmarks.zoo.results import SCHEMA, Results, Run, Tried, passes, read, report, summary
from pytest_gpuperf.records.files import write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from benchmarks.zoo.cases import Animal

ENVIRONMENTS: Mapping[str, Mapping[str, str]] = {
    "usual": {},
    "expandable segments": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "cudaMallocAsync": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "no caching": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    "blocking launches": {"CUDA_LAUNCH_BLOCKING": "1"},
}
MODES = ("hot", "cold", "auto")
EVERY = 12
"""Of so many callables one runs in the other environments, too."""
CASES_OF_A_CHILD = 150
START_S, CASE_S = 120.0, 150.0
"""Seconds for the start of a child, and for one step of a callable: some compile."""
BUDGET_S = 0.05
LONGEST_MESSAGE = 300


class Lane:
    """Runs orders in children, one after the other.

    Args:
        animals: The callables.
        arguments: Seconds of a timing, and how times are verified: the arguments of a child.
        end: Monotonic time after which no callable begins.
        keep: Called with each result.
        start: Starts a child; replaced in tests.
    """

    def __init__(
        self,
        animals: Mapping[str, Animal],
        arguments: Sequence[str],
        end: float,
        keep: Callable[[Tried], None],
        start: Callable[..., Child] = Child,
    ) -> None:
        self._animals = animals
        self._arguments = arguments
        self._end = end
        self._keep = keep
        self._start = start
        self.absent: dict[str, str] = {}
        self.not_run: list[str] = []
        self._started = False

    def run(self, orders: Sequence[Order], run: Run, environment: str = "usual") -> None:
        """Carry out orders: with `alone` each in a child of its own."""
        size = 1 if run == "alone" else CASES_OF_A_CHILD
        for at in range(0, len(orders), size):
            waiting = [*orders[at : at + size]]
            while waiting:
                if time.monotonic() > self._end:
                    self.not_run += [order.name for order in waiting]
                    break
                waiting = self._in_a_child(waiting, run, environment)

    def _in_a_child(self, orders: list[Order], run: Run, environment: str) -> list[Order]:
        """Start a child and carry out orders until it ends; return those that are left.

        Raises:
            SystemExit: The first child does not start.
        """
        child = self._start(
            "benchmarks.zoo.child:work", self._arguments, environment=ENVIRONMENTS[environment]
        )
        try:
            child.begin()
            try:
                child.hear(START_S)
            except ChildError as error:
                if not self._started:
                    raise SystemExit(f"a process of the zoo did not start: {error}") from None
                self._crashed(orders[0].name, "start", run, environment, error)
                self.not_run += [order.name for order in orders]
                return []
            self._started = True
            for at, order in enumerate(orders):
                if time.monotonic() > self._end:
                    return orders[at:]
                if (left := self._carry_out(child, order, run, environment)) is not None:
                    return [*([Order(order.name, left)] if left else []), *orders[at + 1 :]]
            child.tell(None)
            return []
        finally:
            child.stop()

    def _carry_out(self, child: Child, order: Order, run: Run, environment: str) -> tuple[str, ...] | None:
        """Carry out one order; return what is left of it if the child has ended, else None."""
        left, begun = [*order.asked], ""
        child.tell(msgspec.to_builtins(order))
        while True:
            try:
                message = child.hear(CASE_S)
            except ChildError as error:
                if begun:
                    self._crashed(order.name, begun, run, environment, error)
                # What could not be made, or has broken the GPU after its last step, is not tried again.
                return tuple(left[left.index(begun) + 1 :]) if begun in left else ()
            if "begins" in message:
                begun = message["begins"]
            elif "absent" in message:
                self.absent[order.name], begun = message["absent"], ""
            elif "tried" in message:
                found = msgspec.convert(message["tried"], Tried)
                which = found.run if run == "first" else run
                self._keep(msgspec.structs.replace(found, run=which, environment=_shown(environment)))
                left = left[left.index(found.asked) + 1 :]
                begun = ""
            else:
                return None

    def _crashed(self, name: str, asked: str, run: Run, environment: str, error: ChildError) -> None:
        crashed = Tried(
            name=name,
            kind=self._animals[name].kind,
            asked=asked,
            run=run,
            environment=_shown(environment),
            fate="crashed",
            message=str(error)[:LONGEST_MESSAGE],
        )
        self._keep(crashed)


def _shown(environment: str) -> str:
    return "" if environment == "usual" else environment


def shard(names: Sequence[str], part: str) -> list[str]:
    """Return a part of the names, such as `2/4`.

    Raises:
        ValueError: It is no such part.
    """
    number, of = map(int, part.split("/"))
    if not 1 <= number <= of:
        raise ValueError(f"found the shard {part}; expected I/N with I from 1 to N")
    return list(names[number - 1 :: of])


def sample(names: Sequence[str], count: int) -> list[str]:
    """Return some of the names, evenly spread."""
    return [names[at * len(names) // count] for at in range(min(count, len(names)))]


def plan(
    names: Sequence[str], modes: Sequence[str], environments: Sequence[str], alone: int
) -> Iterator[tuple[list[Order], Run, str]]:
    """Yield the orders of a run, the usual environment first."""
    last = modes[-1]
    for environment in environments:
        if environment == "usual":
            yield [Order(name, ("check", *modes, "again")) for name in names], "first", environment
            yield [Order(name, (last,)) for name in sample(names, alone)], "alone", environment
        else:
            few = sample(names, -(-len(names) // EVERY))
            yield [Order(name, ("check", last)) for name in few], "first", environment


def measure(given: argparse.Namespace) -> Results:
    """Run the zoo, and write the file after every callable that took part."""
    from pytest_gpuperf.measure.device.environment import environment
    from pytest_gpuperf.measure.device.gpu_identity import gpu_info

    path: Path = given.files[0]
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    where = environment(gpu_info(), ROOT, "")
    animals = zoo()
    names = shard([name for name in animals if re.search(given.cases, name)], given.shard)
    tried: list[Tried] = []
    begin = time.monotonic()

    def results() -> Results:
        return Results(
            schema=SCHEMA,
            date=date,
            environment=where,
            tried=tuple(tried),
            absent=dict(lane.absent),
            not_run=tuple(dict.fromkeys(lane.not_run)),
        )

    def keep(found: Tried) -> None:
        if found.fate in ("refused", "crashed"):
            say(f"{found.name} ({found.asked} {found.environment}): {found.fate}: {found.message}")
        tried.append(found)
        if len(tried) % 50 == 0:
            say(f"{len(tried)} results, {time.monotonic() - begin:.0f} s, {found.name}")
            write_files({path: results_file.encode(results())})

    arguments = [str(given.budget), given.verify]
    lane = Lane(animals, arguments, begin + 60 * given.minutes, keep)
    try:
        for orders, run, name in plan(names, given.modes, given.environments, given.alone):
            say(f"{len(orders)} callables, {run}, {name}")
            lane.run(orders, run, name)
    finally:
        write_files({path: results_file.encode(results())})
    return results()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.zoo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    parser.add_argument("--cases", default="", metavar="REGEX", help="callables whose names contain it")
    parser.add_argument("--modes", nargs="+", default=MODES, metavar="MODE")
    parser.add_argument("--environments", nargs="+", default=[*ENVIRONMENTS], choices=ENVIRONMENTS)
    parser.add_argument("--alone", type=int, default=12, metavar="N", help="callables in fresh processes")
    parser.add_argument("--minutes", type=float, default=9.0, help="until no callable begins any more")
    parser.add_argument(
        "--budget", type=float, default=BUDGET_S, help="seconds of a timing after its warm-up"
    )
    parser.add_argument("--verify", choices=("auto", "strict", "off"), default="auto")
    parser.add_argument("--shard", default="1/1", metavar="I/N")
    parser.add_argument("--table", action="store_true", help="print the tables of files")
    parser.add_argument("--list", action="store_true", help="print the names, and the number of each kind")
    given = parser.parse_args()
    if given.list:
        for animal in zoo().values():
            print(f"{animal.name}\t{animal.kind}")
        for kind, count in Counter(animal.kind for animal in zoo().values()).items():
            print(f"{count:4} {kind}")
        return
    if not given.files:
        parser.error("found no FILE; expected the file of the results")
    if given.table:
        print(report(read(given.files)))
        return
    end_in_order_when_told()
    found = measure(given)
    print(report(found) if given.shard == "1/1" else summary(found))
    sys.exit(not passes(found))


if __name__ == "__main__":
    main()
