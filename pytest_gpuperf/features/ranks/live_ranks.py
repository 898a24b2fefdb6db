"""The source of measurements on several GPUs of this machine, by one process for each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from pytest_gpuperf.features.ranks.aggregation import correctness_of, timing_of
from pytest_gpuperf.features.ranks.callable_transfer import packed
from pytest_gpuperf.features.ranks.messages import Check, Time
from pytest_gpuperf.features.ranks.team import Team

if TYPE_CHECKING:
    from pytest_gpuperf.features.ranks.source import RankCall
    from pytest_gpuperf.records import Correctness, Timing
    from pytest_gpuperf.records.ranks import Collective
    from pytest_gpuperf.session.live_source import LiveSource
    from pytest_gpuperf.settings.settings import Settings


class LiveRanks:
    """Measures in ranks, which live until a test asks for another number of them, or the session ends.

    Args:
        settings: The options.
        source: Shows the progress.
    """

    def __init__(self, settings: Settings, source: LiveSource) -> None:
        self._budget_s = settings.budget_s
        self._silence_s = float(settings.of_features["rank-timeout"])
        self._progress = source.display.show
        self._team: Team | None = None

    @property
    def alive(self) -> bool:
        """True if there are ranks."""
        return self._team is not None and self._team.alive

    def check_ranks(self, call: RankCall) -> Correctness:
        """Compare the outputs of all ranks with their references."""
        reference = call.reference
        assert reference is not None
        work = packed({"fn": call.fn, "inputs": call.make, "expected": reference.expected}, call.seed)
        return correctness_of(self._ask(call, Check(work, replace(reference, expected=None))))

    def time_ranks(self, call: RankCall, *, collective: Collective, bytes: int, flops: int) -> Timing:
        """Time the call on all ranks."""
        order = Time(packed({"fn": call.fn, "inputs": call.make}, call.seed), self._budget_s)
        times = self._ask(call, order)
        on_gpu = self._team is not None and self._team.device == "cuda"
        return timing_of(times, on_gpu=on_gpu, collective=collective, bytes=bytes, flops=flops)

    def _ask(self, call: RankCall, order: Check | Time) -> list[Any]:
        try:
            return self._team_of(call).ask(order, lambda what: self._progress(f"{call.nodeid}: {what}"))
        finally:
            self._progress("")

    def end(self) -> None:
        """End all ranks."""
        if self._team is not None:
            self._team.end()

    def _team_of(self, call: RankCall) -> Team:
        """Return the ranks; skip the test if there are too few GPUs."""
        visible = visible_gpus()
        if visible < call.gpus:
            each = "; each process of -n has one" if "PYTEST_XDIST_WORKER" in os.environ else ""
            pytest.skip(f"needs {call.gpus} GPUs, and torch sees {visible}{each}")
        if self._team is None or self._team.world != call.gpus:
            self.end()
            self._team = Team(call.gpus, silence_s=self._silence_s)
        return self._team


def visible_gpus() -> int:
    """Return the number of GPUs that torch sees."""
    import torch

    return torch.cuda.device_count()
