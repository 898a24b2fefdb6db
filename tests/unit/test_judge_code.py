"""Verdicts on slower and faster times of the same code, and names of its differences."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from judging import baseline
from pytest_gpuperf.judge.code import compare_code
from pytest_gpuperf.judge.counters import compare_counters
from pytest_gpuperf.judge.result import Hints, Status
from pytest_gpuperf.judge.times import judge_time
from pytest_gpuperf.records import LaunchedCode, LaunchedKernel
from run_builders import NODEID, gate_of, measured

if TYPE_CHECKING:
    from pytest_gpuperf.judge.times import TimeVerdict
    from pytest_gpuperf.records import Measurement

HINTS = Hints(again="run it again", closer="look closer")


def kernel(**fields: Any) -> LaunchedKernel:
    return LaunchedKernel(**{"name": "k", "code": "ab", "registers_per_thread": 32, **fields})


def code(*kernels: LaunchedKernel, **fields: Any) -> LaunchedCode:
    return LaunchedCode(kernels=kernels or (kernel(),), driver="580.1", **fields)


def slower(
    found: LaunchedCode | None, before: Measurement | None = None, time_us: float = 5.84
) -> TimeVerdict:
    known = baseline(5.3).measurements["main"]
    now = replace(measured(time_us), code=found)
    key = (NODEID, "main")
    return judge_time(
        key,
        now,
        replace(known, code=code()),
        compare_counters(now, known),
        gate_of({NODEID: baseline(5.3)}),
        0.0,
        HINTS,
        lambda: before,
    )


def test_slower_time_of_the_same_code_is_inconclusive() -> None:
    judged = slower(code())
    [finding] = judged.findings
    assert (finding.status, judged.moved) == (Status.INCONCLUSIVE, False)
    assert finding.line.endswith(
        "; the code of the kernel is the same as in the baseline: look at the machine"
    )
    assert finding.details == ("run it again", "look closer")


def test_faster_time_of_the_same_code_needs_a_second_process() -> None:
    [finding] = slower(code(), time_us=4.8).findings
    assert finding.status is Status.INCONCLUSIVE
    assert slower(code(), replace(measured(5.8), code=code()), 4.8).findings[0].status is finding.status
    judged = slower(code(), replace(measured(4.8), code=code()), 4.8)
    assert (judged.findings[0].status, judged.moved) == (Status.IMPROVED, True)


def test_slower_time_of_the_same_code_in_two_processes_has_regressed() -> None:
    [finding] = slower(code(), replace(measured(5.8), code=code())).findings
    assert finding.status is Status.REGRESSED
    assert "the code of the kernel is the same as in the baseline: look at the machine" in finding.details


@pytest.mark.parametrize(
    "before",
    [
        replace(measured(5.3), code=code()),
        replace(measured(5.8), code=code(kernel(code="cd"))),
        replace(measured(5.8), code=None),
        measured(None),
    ],
    ids=["as fast as the baseline", "other code", "unknown code", "no time"],
)
def test_other_run_confirms_nothing(before: Measurement) -> None:
    assert slower(code(), before).findings[0].status is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    "found",
    [None, code(kernel(code="")), code(kernel(code="cd")), code(kernel(grid=(2, 1, 1)))],
    ids=["unknown", "hash unknown", "other code", "other launch"],
)
def test_slower_time_without_the_same_code_has_regressed(found: LaunchedCode | None) -> None:
    judged = slower(found)
    assert (judged.findings[0].status, judged.moved) == (Status.REGRESSED, True)


def test_unchanged_time_of_the_same_code_passes() -> None:
    assert slower(code(), time_us=5.3).findings == ()


@pytest.mark.parametrize(
    ("now", "lines"),
    [
        (code(kernel(code="cd")), ("k: other code",)),
        (
            code(kernel(code="cd", registers_per_thread=40, shared_memory_bytes=1024, local_bytes=16)),
            (
                "k: other code, registers 32 -> 40, local memory (stack and spills) 0 -> 16, "
                "shared memory 0 -> 1024",
            ),
        ),
        (code(kernel(block=(64, 2, 1))), ("k: block 0 x 0 x 0 -> 64 x 2 x 1",)),
        (code(kernel(), kernel(name="n")), ("n is a new kernel",)),
        (code(kernel(name="n")), ("n is a new kernel", "k is no longer launched")),
        (code(arguments=("float32[4]",)), ("arguments  -> float32[4]",)),
        (replace(code(), driver="590"), ("driver 580.1 -> 590",)),
        (code(*(kernel(name=f"n{at}") for at in range(10))), 9),
    ],
)
def test_differences_are_named(now: LaunchedCode, lines: tuple[str, ...] | int) -> None:
    found = compare_code(now, code())
    assert not found.same
    assert (len(found.differences) if isinstance(lines, int) else found.differences) == lines


def test_order_of_launches_makes_no_difference() -> None:
    pair = kernel(), kernel(name="n")
    same = partial(compare_code, code(*pair))
    assert same(code(*reversed(pair))).line == "the code of all 2 kernels is the same as in the baseline"
