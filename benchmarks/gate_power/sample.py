"""Sample on the GPU until the time is up: sessions and restarts in turn."""

from __future__ import annotations

import math
import time
from random import Random
from typing import TYPE_CHECKING, Literal

import msgspec

from benchmarks.children import Child, ChildError, say
from benchmarks.gate_power.kernels import IN_STEPS, named
from benchmarks.gate_power.samples import Began, Failed, Line, RestartSample, SessionSample, model_key
from pytest_gpuperf.against.blocks import (
    SideBlock,
    at_one_clock,
    in_turn,
    ratio,
    ratio_error,
    warm_up,
    with_times,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.statistics.clock_model import ClockModel
    from pytest_gpuperf.statistics.sequential import Side

SESSION = "benchmarks.gate_power.child:session"
TAKE_TURNS = "benchmarks.gate_power.child:take_turns"
BUDGET_S = 0.5
"""Budget for the blocks of a comparison, half of the default."""
GIVE_UP_AFTER = 4
"""Number of consecutive failures after which sampling stops, to save time on the GPU."""
PAIRS = [(0, 0), (0, 5), (0, 10), (5, 5)]
"""Doses of old and new code."""


class _RefusedError(Exception):
    """Refusal of a side, with its reason; the side goes on."""


class Sampler:
    """Sampler of sessions and restarts until the time is up.

    Args:
        write: Receives each line as it comes.
        seconds: Wall-clock time in all, with the start of processes.
        say: Receives progress messages.
        only: `sessions` or `restarts`, to leave the other out.
        kernels: Pattern of the kernels' names; by default all.
        session: Target of a session's process.
        take_turns: Target of a side's process.
        clock: Returns seconds.
    """

    def __init__(
        self,
        write: Callable[[Line], None],
        seconds: float,
        say: Callable[[str], None] = say,
        *,
        only: Literal["", "sessions", "restarts"] = "",
        kernels: str = "",
        session: str = SESSION,
        take_turns: str = TAKE_TURNS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._clock = clock
        self._end = clock() + seconds
        self._say = say
        self._targets = session, take_turns
        # Even numbers are sessions, odd ones restarts.
        self._first, self._stride = {"": (0, 1), "sessions": (0, 2), "restarts": (1, 2)}[only]
        self._kernels = kernels
        self._card = ""
        self._models: dict[str, ClockModel] = {}
        """Clock models of unchanged code in the first session that has one."""

    def run(self) -> None:
        """Sample sessions and restarts in turn; do not begin one that would end too late."""
        number, failed = self._first, 0
        took = {0: 0.0, 1: 0.0}
        children = self._start(number)
        try:
            while failed < GIVE_UP_AFTER and self._left() > took[number % 2]:
                begin = self._clock()
                present, children = children, []
                try:
                    # The next children import while these measure.
                    children = self._start(number + self._stride)
                    self._step(number, present)
                    failed = 0
                except ChildError as error:
                    failed += 1
                    self._write(Failed(what=_name(number), why=str(error)))
                    self._say(f"{_name(number)} failed: {error}")
                finally:
                    for child in present:
                        child.stop()
                took[number % 2] = self._clock() - begin
                self._say(f"{_name(number)}: {took[number % 2]:.1f} s, {self._left():.0f} s left")
                number += self._stride
        finally:
            for child in children:
                child.stop()

    def _start(self, number: int) -> list[Child]:
        session, take_turns = self._targets
        wanted = [self._kernels] if self._kernels else []
        if number % 2:
            doses = " ".join(map(str, sorted({dose for pair in PAIRS for dose in pair})))
            return [Child(take_turns, [doses, *wanted]) for _ in range(2)]
        return [Child(session, [str(number // 2), *wanted])]

    def _step(self, number: int, children: list[Child]) -> None:
        if number % 2:
            self._restart(number // 2, {"A": children[0], "B": children[1]})
            return
        (child,) = children
        child.begin()
        child.tell(msgspec.to_builtins(self._models))
        for message in child.messages(self._left()):
            self._keep(message)

    def _restart(self, restart: int, sides: dict[Side, Child]) -> None:
        rng = Random(restart)
        # The side that goes first changes a time by tenths of a percent.
        for child in reversed(sides.values()) if restart % 2 else sides.values():
            child.begin()
            self._answer(child)
        kernels = [kernel.name for kernel in named(self._kernels)]
        for kernel in rng.sample(kernels, len(kernels)):
            pairs = [pair for pair in PAIRS if pair[0] == pair[1] or kernel not in IN_STEPS]
            for old, new in rng.sample(pairs, len(pairs)):
                begin = self._clock()
                try:
                    blocks = self._blocks(sides, kernel, {"A": old, "B": new}, rng)
                except _RefusedError as error:
                    what = f"restart {restart}, {kernel} {old} and {new} ‰"
                    self._write(Failed(what=what, why=str(error)))
                    continue
                raw = [math.log(block.time_us) for block in blocks]
                logs = at_one_clock(blocks, raw)
                self._write(
                    RestartSample(
                        restart=restart,
                        kernel=kernel,
                        old=old,
                        new=new,
                        card=self._card,
                        log_ratio=round(ratio(blocks, logs), 7),
                        raw_log_ratio=round(ratio(blocks, raw), 7),
                        error=round(ratio_error(blocks, logs), 7),
                        seconds=round(self._clock() - begin, 3),
                    )
                )

    def _blocks(
        self, sides: Mapping[Side, Child], kernel: str, doses: Mapping[Side, int], rng: Random
    ) -> tuple[SideBlock, ...]:
        def block(side: Side) -> SideBlock:
            sides[side].tell([kernel, doses[side]])
            time_us, sm_clock_mhz = self._answer(sides[side])
            return SideBlock(side, time_us, sm_clock_mhz)

        warm_up(block, BUDGET_S)
        if blocks := with_times(in_turn(block, rng, BUDGET_S)):
            return blocks
        raise _RefusedError("half of the quads have a block at or below 0 µs")

    def _answer(self, child: Child) -> list[float]:
        """Return a side's answer, and write the lines that it sends before.

        Raises:
            ChildError: The side has ended, or the time is up.
            _RefusedError: The side refused the request.
        """
        while True:
            message = child.hear(self._left())
            if isinstance(message, list):
                return message
            if isinstance(message, str):
                raise _RefusedError(message)
            self._keep(message)

    def _keep(self, message: object) -> None:
        line: Line = msgspec.convert(message, Line)
        if isinstance(line, Began):
            self._card = line.environment.gpu.uuid
        elif isinstance(line, SessionSample) and not line.permille and line.timing.clock_model is not None:
            key = model_key(line.kernel, line.timing.mode, line.timing.source)
            self._models.setdefault(key, line.timing.clock_model)
        self._write(line)

    def _left(self) -> float:
        return max(0.0, self._end - self._clock())


def _name(number: int) -> str:
    return f"{'restart' if number % 2 else 'process'} {number // 2}"
