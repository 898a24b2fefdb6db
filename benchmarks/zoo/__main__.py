"""Check and time a zoo of honest callables: none may be refused, and times must be right.

python -m benchmarks.zoo FILE [--cases REGEX] [--modes hot cold auto] [--minutes M]    # on a GPU
python -m benchmarks.zoo FILE --shard 2/4                   # a quarter, on another GPU
python -m benchmarks.zoo FILE --runs alone                  # only each alone in a fresh process
python -m benchmarks.zoo FILE --environments "no caching"   # only there
python -m benchmarks.zoo FILE... --table                    # anywhere
python -m benchmarks.zoo --list

Each callable is checked, timed in each mode, and once more if that was not done by two of them (`auto` times
most callables hot). The reference of a time is the union of CUPTI's record intervals of single calls, with a
measured gap for each launch if the time includes the gaps.
Then each is timed in the last mode only: alone in a fresh process, and in processes with other allocators and
with launches that block. Several of these processes begin at once, and prepare while none of them times.
The callables run in child processes: one that ends is replaced.

Exit status 1: a callable was refused or crashed, or fewer than 90 % of the times are right.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

import msgspec

from benchmarks import results_file
from benchmarks.children import ROOT, Child, ChildError, end_in_order_when_told, say
from benchmarks.zoo.cases import zoo
from benchmarks.zoo.child import Order
from benchmarks.zoo.results import SCHEMA, Results, Run, Tried, passes, read, report, run_of, summary
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
RUNS: tuple[Run, ...] = ("first", "alone")
CASES_OF_A_CHILD = 150
CASES_OF_ONE_OF_SEVERAL = 20
"""Callables of one of several children on a GPU."""
AT_ONCE = 8
"""Children of one GPU that begin at once: the imports of one take ten times as long as its time."""
START_S, CASE_S, WAIT_S = 120.0, 150.0, 900.0
"""Seconds for the start of a child, for a step of a callable (some compile), and for the turns of others."""
WRITE_S = 5.0
"""Seconds between two writes of the file: a run may be killed."""
BUDGET_S = 0.05
LONGEST_MESSAGE = 300


class Lane:
    """Runs orders in children: one after the other, or several that take turns.

    Args:
        animals: The callables.
        arguments: Seconds of a timing, and how times are verified: the arguments of a child.
        end: Monotonic time after which no callable begins.
        keep: Called with each result, by one thread at a time.
        at_once: Children that begin at once if they take turns.
        start: Starts a child; replaced in tests.
    """

    def __init__(
        self,
        animals: Mapping[str, Animal],
        arguments: Sequence[str],
        end: float,
        keep: Callable[[Tried], None],
        at_once: int = AT_ONCE,
        start: Callable[..., Child] = Child,
    ) -> None:
        self._animals = animals
        self._arguments = arguments
        self._end = end
        self._keep = keep
        self._at_once = at_once
        self._start = start
        self.absent: dict[str, str] = {}
        self.not_run: list[str] = []
        self._started = False
        self._is_over = False
        self._children: set[Child] = set()
        self._lock = threading.Lock()

    def run(self, orders: Sequence[Order], run: Run, environment: str = "usual") -> None:
        """Carry out orders: with `alone` each in a child of its own."""
        takes_turns = run == "alone" or environment != "usual"
        size = 1 if run == "alone" else CASES_OF_ONE_OF_SEVERAL if takes_turns else CASES_OF_A_CHILD
        groups = [orders[at : at + size] for at in range(0, len(orders), size)]
        with NamedTemporaryFile() as file, ThreadPoolExecutor(self._at_once if takes_turns else 1) as pool:
            name = file.name if takes_turns else ""
            try:
                waiting = [pool.submit(self._in_children, one, run, environment, name) for one in groups]
                for one in waiting:
                    one.result()
            except BaseException:
                self._stop()
                raise

    def _stop(self) -> None:
        """End all children; their exits are not crashes."""
        self._is_over, self._end = True, time.monotonic()
        for child in [*self._children]:
            child.stop()

    def _in_children(self, orders: Sequence[Order], run: Run, environment: str, file: str) -> None:
        """Carry out orders in a child, and in another one if it ends early."""
        waiting = [*orders]
        while waiting:
            if time.monotonic() > self._end:
                self._leave(waiting, run, environment)
                break
            waiting = self._in_a_child(waiting, run, environment, file)

    def _leave(self, orders: Sequence[Order], run: Run, environment: str) -> None:
        self.not_run += [run_of(order.name, run, _shown(environment)) for order in orders]

    def _in_a_child(self, orders: list[Order], run: Run, environment: str, file: str) -> list[Order]:
        """Start a child and carry out orders until it ends; return those that are left.

        Raises:
            SystemExit: The first child does not start.
        """
        arguments = [*self._arguments, *([file] if file else [])]
        child = self._start("benchmarks.zoo.child:work", arguments, environment=ENVIRONMENTS[environment])
        self._children.add(child)
        try:
            child.begin()
            try:
                child.hear(START_S)
            except ChildError as error:
                if not self._started:
                    raise SystemExit(f"a process of the zoo did not start: {error}") from None
                self._crashed(orders[0].name, "start", run, environment, error)
                self._leave(orders, run, environment)
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
            self._children.discard(child)
            child.stop()

    def _carry_out(self, child: Child, order: Order, run: Run, environment: str) -> tuple[str, ...] | None:
        """Carry out one order; return the rest of it if the child has ended, else None."""
        left, begun, limit_s = [*order.asked], "", CASE_S
        child.tell(msgspec.to_builtins(order))
        while True:
            try:
                message = child.hear(limit_s)
            except ChildError as error:
                if begun:
                    self._crashed(order.name, begun, run, environment, error)
                # What could not be made, or has broken the GPU after its last step, is not tried again.
                return tuple(left[left.index(begun) + 1 :]) if begun in left else ()
            limit_s = WAIT_S if "waits" in message else CASE_S
            if "waits" in message:
                begun = ""
            elif "begins" in message:
                begun = message["begins"]
            elif "absent" in message:
                self.absent[order.name], begun = message["absent"], ""
            elif "tried" in message:
                found = msgspec.convert(message["tried"], Tried)
                which = found.run if run == "first" else run
                with self._lock:
                    self._keep(msgspec.structs.replace(found, run=which, environment=_shown(environment)))
                left = left[left.index(found.asked) + 1 :]
                begun = ""
            else:
                return None

    def _crashed(self, name: str, asked: str, run: Run, environment: str, error: ChildError) -> None:
        if self._is_over:
            return
        crashed = Tried(
            name=name,
            kind=self._animals[name].kind,
            asked=asked,
            run=run,
            environment=_shown(environment),
            fate="crashed",
            message=str(error)[:LONGEST_MESSAGE],
        )
        with self._lock:
            self._keep(crashed)


def _shown(environment: str) -> str:
    return "" if environment == "usual" else environment


def shard(names: Sequence[str], part: str) -> list[str]:
    """Return a part of the names, such as `2/4`.

    Raises:
        ValueError: The part does not exist.
    """
    number, of = map(int, part.split("/"))
    if not 1 <= number <= of:
        raise ValueError(f"found the shard {part}; expected I/N with I from 1 to N")
    return list(names[number - 1 :: of])


def plan(
    names: Sequence[str], modes: Sequence[str], environments: Sequence[str], runs: Sequence[Run]
) -> Iterator[tuple[list[Order], Run, str]]:
    """Yield the orders of a run, the usual environment first."""
    last = modes[-1]
    for environment in environments:
        if environment != "usual":
            yield [Order(name, ("check", last)) for name in names], "first", environment
            continue
        if "first" in runs:
            yield [Order(name, ("check", *modes, "again")) for name in names], "first", environment
        if "alone" in runs:
            yield [Order(name, (last,), recorded=False) for name in names], "alone", environment


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
    begin = written = time.monotonic()

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
        nonlocal written
        if found.fate in ("refused", "crashed"):
            say(f"{found.name} ({found.asked} {found.environment}): {found.fate}: {found.message}")
        tried.append(found)
        if len(tried) % 50 == 0:
            say(f"{len(tried)} results, {time.monotonic() - begin:.0f} s, {found.name}")
        if time.monotonic() > written + WRITE_S:
            write_files({path: results_file.encode(results())})
            written = time.monotonic()

    arguments = [str(given.budget), given.verify]
    lane = Lane(animals, arguments, begin + 60 * given.minutes, keep, given.at_once)
    try:
        for orders, run, name in plan(names, given.modes, given.environments, given.runs):
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
    parser.add_argument("--runs", nargs="+", default=RUNS, choices=RUNS, help="in the usual environment")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, metavar="N", help="processes that take turns")
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
