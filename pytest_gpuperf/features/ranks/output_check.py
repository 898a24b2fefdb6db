"""Compare the outputs of a call on one rank with the expected ones.

Every rank calls the function equally often, whatever it finds: a call that one rank leaves out would keep the
others waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.measure.correctness.call_tensors import Arguments, copied_outputs
from pytest_gpuperf.measure.correctness.comparison import Tolerance, compare, low_signal, merge
from pytest_gpuperf.measure.device.memory import PATTERNS, holds, poisoned_memory
from pytest_gpuperf.records import Correctness

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from pytest_gpuperf.features.ranks.single_rank_call import RankedCall
    from pytest_gpuperf.records.call import Reference

    Outputs = dict[str, torch.Tensor]


def check(call: RankedCall, reference: Reference) -> Correctness:
    """Run a call on poisoned memory, and compare its outputs.

    Raises:
        GpuperfError: A tolerance or `mutates` is impossible, or there is no output.
    """
    tolerance = Tolerance(reference.rtol, reference.atol, reference.equal_nan)
    arguments = Arguments(call.args, call.kwargs, reference.mutates)
    call.doing("calls")
    changed = ""
    runs: list[Outputs] = []
    for byte in (None, *PATTERNS):
        # Without a pattern it is a rehearsal, which leaves all memory of the call within reach of the others.
        with arguments.put_back():
            with poisoned_memory(byte, {call.device}):
                value = call()
                call.meet()
            runs.append(copied_outputs(value, "the function", arguments.written))
            del value
            changed = changed or arguments.change()
            # Another rank may still read these arguments.
            call.meet()
        call.meet()
    call.doing("compares")
    expected = copied_outputs(call.make_expected(), "expected")
    call.meet()
    return Correctness(passed=False, failure=changed) if changed else _compared(runs[1:], expected, tolerance)


def _compared(runs: Sequence[Outputs], expected: Outputs, tolerance: Tolerance) -> Correctness:
    names = list(runs[0])
    if len(names) != len(expected):
        failure = f"the function returned {', '.join(names)}; expected returned {', '.join(expected)}"
        return Correctness(passed=False, failure=failure)
    results, little = [], ""
    for name, target in zip(names, expected.values(), strict=True):
        first, second = (run[name] for run in runs)
        unwritten = holds(first, PATTERNS[0]) & holds(second, PATTERNS[1])
        of_runs = [compare(one, target, tolerance, name, unwritten) for one in (first, second)]
        results.append(next((result for result in of_runs if not result.passed), of_runs[-1]))
        little = little or low_signal(name, target, first.dtype, tolerance)
    result = merge(results)
    return replace(result, low_signal=little) if result.passed else result
