"""Time two callables in turn in this process: each round on other inputs, its outputs checked after it.

A side may write to its inputs: a sort in place would find them sorted from its second call on. Inputs that a
side changes and that the reference reads are restored before each call of both sides, within its time. An
output that is handed over is not: neither side may depend on its content.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.against.callable_rounds import Rounds
from pytest_gpuperf.against.git import Commit
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial.problem import cloned, fits, refill, tensors_in
from pytest_gpuperf.features.trial.record import CaseTimes
from pytest_gpuperf.measure.correctness.comparison import Tolerance, compare
from pytest_gpuperf.measure.device.memory import copy, fill, fingerprint, same_bits
from pytest_gpuperf.measure.device.originals import finish

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_gpuperf.against.blocks import SideBlock
    from pytest_gpuperf.features.trial.problem import Problem
    from pytest_gpuperf.measure.timing.batch import Batch
    from pytest_gpuperf.measure.timing.timer import Timer
    from pytest_gpuperf.statistics.sequential import Side

STALE = 0x5A
"""Byte that outputs are filled with before the timed calls are checked."""


class RefusedTimeError(Exception):
    """The time of a solution cannot be trusted."""


@dataclass
class _TimedCall:
    """A call that keeps its last output, which a graph writes again at each replay."""

    fn: Any
    args: tuple[Any, ...]
    restored: Sequence[int] = ()
    """Tensors among the arguments that are restored before each call."""
    output: Any = None

    def __post_init__(self) -> None:
        tensors = tensors_in(self.args)
        self._written = [tensors[at] for at in self.restored]
        self._before = cloned(self._written)

    def keep_inputs(self) -> None:
        """Restore the present inputs from now on."""
        refill(self._before, self._written)

    @property
    def restored_bytes(self) -> int:
        """Bytes that are copied before each call."""
        return sum(tensor.nbytes for tensor in self._before)

    def __call__(self) -> None:
        """Call it."""
        refill(self._written, self._before)
        self.output = self.fn(*self.args)


class AlternatingRounds:
    """Rounds of reference and solution.

    Args:
        problem: The callables.
        preparer: Makes calls ready to be timed.
        mode: Timing mode, or `auto`; both sides have the same one.
        budget_s: Seconds for the blocks of all rounds.
        tolerance: Tolerance of the outputs.
    """

    def __init__(
        self, problem: Problem, preparer: Timer, mode: str, budget_s: float, tolerance: Tolerance
    ) -> None:
        self._problem = problem
        # A solution might get at CUPTI's records.
        self._rounds = Rounds(preparer, mode, recorded=False)
        self._budget_s = budget_s
        self._tolerance = tolerance
        self._restored_bytes = 0

    def run(self, seeds: Sequence[int]) -> CaseTimes:
        """Run a round for each seed.

        Raises:
            GpuperfError: A side cannot be timed.
            RefusedTimeError: The solution was wrong in the timed calls.
        """
        for seed in seeds:
            self._round(seed, self._budget_s / len(seeds))
        rounds = [restart.blocks for restart in self._rounds.series.restarts]
        return CaseTimes(
            in_turn=self._rounds.series.record(Commit("reference", "")),
            reference_rounds_us=tuple(_mean_us(blocks, "A") for blocks in rounds),
            solution_rounds_us=tuple(_mean_us(blocks, "B") for blocks in rounds),
            restored_bytes=self._restored_bytes,
        )

    def _round(self, seed: int, budget_s: float) -> None:
        args = self._problem.arguments(seed)
        written = self._written(args)
        restored = [at for at, after in written.items() if self._reads(args, at, after)]
        # Sums, not copies, which could take gigabytes.
        sums = _sums(args, written)
        calls: dict[Side, _TimedCall] = {
            "A": _TimedCall(self._problem.reference, cloned(args), restored),
            "B": _TimedCall(self._problem.solution, args, restored),
        }
        self._restored_bytes = max(self._restored_bytes, calls["B"].restored_bytes)
        prepared = self._rounds.run(calls, budget_s)
        if _sums(args, written) != sums:
            raise RefusedTimeError("the timed calls changed inputs that a call by itself leaves alone")
        self._check(calls["B"], prepared["B"], seed)

    def _written(self, args: tuple[Any, ...]) -> dict[int, torch.Tensor]:
        """Return the tensors among the arguments that a call of either side changes, as they are after it."""
        changed: dict[int, torch.Tensor] = {}
        for side in (self._problem.reference, self._problem.solution):
            copies = cloned(args)
            side(*copies)
            finish()
            pairs = zip(tensors_in(args), tensors_in(copies), strict=True)
            changed |= {at: one[1] for at, one in enumerate(pairs) if not same_bits(*one).all()}
        return changed

    def _reads(self, args: tuple[Any, ...], at: int, after: torch.Tensor) -> bool:
        """Return True if the reference depends on a tensor: other values in it change the output.

        Args:
            args: The arguments.
            at: Place of the tensor.
            after: Its values after a call: they are allowed, such as indices, but may leave a sorted output.
        """
        found = []
        for values in (None, after, torch.zeros_like(after)):
            copies = cloned(args)
            if values is not None:
                refill([tensors_in(copies)[at]], [values])
            output = self._problem.reference(*copies)
            finish()
            found.append(tensors_in(copies if output is None else output))
        return any(self._differences(one, found[0]) for one in found[1:])

    def _differences(self, outputs: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> str:
        results = (
            compare(copy(output), copy(target), self._tolerance, f"output {at} of the timed calls")
            for at, (output, target) in enumerate(zip(outputs, expected, strict=False))
        )
        return next((result.failure for result in results if not result.passed), "")

    def _check(self, call: _TimedCall, prepared: Batch, seed: int) -> None:
        """Run the timed calls once more, on other values at the same addresses, and compare the last output.

        The reference runs after them: nobody can find its output in memory before.
        """
        fresh = self._problem.arguments(seed ^ 0x5EED)
        # The shapes may depend on the seed.
        refill(call.args, fresh if fits(call.args, fresh) else self._problem.arguments(seed))
        del fresh
        # Numbers, and objects in which no tensors are seen, are those of the timed calls.
        kept = cloned(call.args)
        outputs = tensors_in(call.output)
        inputs = {tensor.untyped_storage().data_ptr() for tensor in tensors_in(call.args)}
        # A solution may return tensors of inference mode, which nothing else may write.
        with torch.inference_mode():
            for output in outputs:
                if output.untyped_storage().data_ptr() not in inputs:
                    fill(output, STALE)
        call.keep_inputs()
        prepared.block(recorded=False)
        finish()
        if self._problem.judges:
            why = self._problem.objection(kept, call.output)
            failure = f"outputs of the timed calls: {why}" if why else ""
        else:
            again = cloned(kept)
            failure = self._differences(tensors_in(call.output), tensors_in(self._problem.reference(*again)))
        if failure:
            raise RefusedTimeError(failure)


def _sums(args: tuple[Any, ...], but: Collection[int]) -> list[tuple[int, ...]]:
    """Return sums over the arguments, without those that are written, or share memory with such a one."""
    tensors = tensors_in(args)
    written = {tensors[at].untyped_storage().data_ptr() for at in but}
    return [fingerprint(one) for one in tensors if one.untyped_storage().data_ptr() not in written]


def _mean_us(blocks: Sequence[SideBlock], side: Side) -> float:
    logs = [math.log(block.time_us) for block in blocks if block.side == side and block.time_us > 0]
    if not logs:
        raise GpuperfError("a block took no time at all", next_step="use --mode kernels")
    return round(math.exp(fmean(logs)), 6)
