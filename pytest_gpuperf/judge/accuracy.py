"""Accuracy of an output compared with its baseline.

The data of a test are the same in every session, because its seeds are. So are the errors, unless the code or
its libraries change. With atomic additions each call adds in another order: then the root mean square of many
errors moves by a few percent, that of few by factors, and so does the largest error in sums that cancel.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from pytest_gpuperf.judge.result import Finding, Status
from pytest_gpuperf.records.change import show_pair, show_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_gpuperf.records import Accuracy

RMS_PCT = 5.0
"""Tolerated growth of the root mean square error of many elements, in %; TF32 makes it hundreds of times
larger."""
RMS_PCT_OF_ONE = 1000.0
"""Further growth for few elements, in % over the square root of their number."""
LEAST_RMS_ULP = 0.02
"""Growth that is always tolerated: less than a tenth of the error of correct rounding, 0.29 ULP."""
MAX_FACTOR = 4.0
"""Tolerated growth of the largest error: two bits."""
LEAST_MAX_ULP = 1.0
"""Growth of the largest error that is always tolerated, in ULP."""
SHORT_TYPES: Mapping[str, int] = {"TF32 or float16": 11, "bfloat16": 8}
"""Significant bits of types that a float32 product may be rounded to."""
BITS_OF_TYPE: Mapping[str, int] = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
"""Significant bits of types of outputs."""
ROUNDED_BITS = 1.6
"""Bits that a product of rounded factors is right for, at most, beyond those of the factors."""


def compare_accuracy(now: Accuracy, known: Accuracy) -> Iterator[Finding]:
    """Compare the errors of each output with those of its baseline."""
    for one, before in paired_outputs(now, known):
        of = f" of {one.output}" if now.others else ""
        if one.rms_ulp is None or before.rms_ulp is None or one.kind != before.kind:
            if narrower := _narrower(one, before):
                yield Finding(Status.REGRESSED, narrower)
            elif before.rms_ulp is not None:
                now_of = f"of {one.kind}" if one.rms_ulp is not None else f"not known ({one.note})"
                line = f"the accuracy is {now_of}, the baseline's of {before.kind}: not compared"
                yield Finding(Status.PASS, line, doubt=True)
            continue
        for name, (value, stored, most) in islice(worse_figures(one, before).items(), 1):
            actual, expected = show_pair(value, stored)
            worse = f"{name}{of} {actual} is worse than the baseline {expected}"
            line = f"{worse} (tolerated: {show_value(most)})"
            yield Finding(Status.REGRESSED, line, details=tuple(_rounding(one, before)))
    if known.same_bits and not now.same_bits:
        line = "two calls no longer give the same bits; 'same_bits == 1' as a limit demands it"
        yield Finding(Status.PASS, line)


def paired_outputs(now: Accuracy, known: Accuracy) -> list[tuple[Accuracy, Accuracy]]:
    """Pair the outputs of two accuracies by their names; pair the worst ones if no name is the same."""
    before = known.by_output
    pairs = [(one, before[name]) for name, one in now.by_output.items() if name in before]
    return pairs or [(now, known)]


def worse_figures(now: Accuracy, known: Accuracy) -> dict[str, tuple[float, float, float]]:
    """Return the errors that have grown beyond their tolerance.

    Returns:
        By name: the error, the baseline's, and the largest that is tolerated.
    """
    few = RMS_PCT_OF_ONE / max(1, min(now.elements, known.elements)) ** 0.5 / 100
    tolerated = {"rms_ulp": (1 + RMS_PCT / 100 + few, LEAST_RMS_ULP)}
    if now.same_bits and known.same_bits:
        tolerated["max_ulp"] = (MAX_FACTOR + few, LEAST_MAX_ULP)
    found = {}
    for name, (factor, least) in tolerated.items():
        value, before = getattr(now, name), getattr(known, name)
        if value is not None and before is not None and value > (most := before * factor + least):
            found[name] = (value, before, most)
    return found


def _narrower(now: Accuracy, known: Accuracy) -> str:
    """Describe an output of a narrower type than that of its baseline; empty if it is not narrower."""
    if now.output != known.output or not {now.dtype, known.dtype} <= BITS_OF_TYPE.keys():
        return ""
    bits, before = BITS_OF_TYPE[now.dtype], BITS_OF_TYPE[known.dtype]
    if bits >= before:
        return ""
    return (
        f"the output is {now.dtype} with {bits} significant bits, in the baseline {known.dtype} with {before}"
    )


def _rounding(now: Accuracy, known: Accuracy) -> Iterator[str]:
    if now.bits is None or known.bits is None:
        return
    text = f"{now.bits:.1f} significant bits are right, in the baseline {known.bits:.1f}"
    for name, bits in SHORT_TYPES.items():
        if now.dtype == "float32" and bits <= now.bits < bits + ROUNDED_BITS <= known.bits:
            text += f": as if factors were rounded to {name}, which has {bits}"
    yield text
    largest = show_value(now.max_ulp or 0.0)
    yield f"the largest error, {largest} ULP, is at {list(now.max_ulp_index)} of {now.output}"
