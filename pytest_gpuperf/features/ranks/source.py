"""The sources of measurements on several GPUs: ranks of this machine, or a recording."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_gpuperf.records.call import Call
from pytest_gpuperf.session.live_source import LiveSource
from pytest_gpuperf.session.replay_runner import RecordedSource

if TYPE_CHECKING:
    from pytest_gpuperf.features.ranks.live_ranks import LiveRanks
    from pytest_gpuperf.records import Correctness, Timing
    from pytest_gpuperf.records.ranks import Collective
    from pytest_gpuperf.session.runner import Runner


class RankCall(Call, frozen=True, kw_only=True):
    """A call on several GPUs at once, by one process for each: a rank.

    `expected` of its reference takes the same as `make`.
    """

    gpus: int
    make: Callable[[int, int, int], Any]
    """Makes the arguments of a rank, from its number, the number of ranks, and a seed."""


class RecordedRanks:
    """Answers from a recording."""

    def __init__(self, source: RecordedSource) -> None:
        self._source = source

    def check_ranks(self, call: RankCall) -> Correctness:
        """Return the recorded comparison."""
        return self._source.check(call)

    def time_ranks(self, call: RankCall, *, collective: Collective, bytes: int, flops: int) -> Timing:
        """Return the recorded time, with the rates of the present test."""
        timing = self._source.time(call, mode="auto", bytes=bytes, flops=flops)
        ranks = timing.ranks
        if ranks is None or len(ranks.ranks) != call.gpus:
            found = len(ranks.ranks) if ranks is not None else 1
            self._source.skip(
                call, f"the recording of {call.nodeid} is of {found} GPUs, the test asks for {call.gpus}"
            )
        return replace(timing, ranks=replace(ranks, collective=collective))


def source_of(runner: Runner) -> LiveRanks | RecordedRanks | None:
    """Return the source of a run; None if its way to run has no ranks."""
    source, settings = runner.source, runner.settings
    if isinstance(source, RecordedSource):
        return RecordedRanks(source)
    if not isinstance(source, LiveSource):
        return None
    from pytest_gpuperf.features.ranks.live_ranks import LiveRanks

    for one in source.processes:
        if isinstance(one, LiveRanks):
            return one
    made = LiveRanks(settings, source)
    source.processes.append(made)
    return made
