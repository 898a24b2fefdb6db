"""Calls around a timing leave what they write as it was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.verification.verifier import Verifier
from pytest_gpuperf.records import LaunchedCode, Verification
from pytest_gpuperf.records.call import Call, Selection
from pytest_gpuperf.records.passes import SelectedTest
from pytest_gpuperf.session.live_source import LiveSource
from pytest_gpuperf.session.progress import Display, News
from run_builders import timing
from timer_bench import Blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.records import Timing


@pytest.mark.parametrize(
    ("verify", "found"),
    [
        ("auto", Verification(doubts=("quick",))),
        ("strict", Verification(doubts=("quick",), refused="the time is refused: quick")),
        ("off", None),
    ],
)
def test_doubts_fail_if_strict_and_nothing_is_verified_if_off(
    verify: str, found: Verification | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Timer:
        def time(self, _: Call, *, mode: str, verify: Callable[..., Timing], **__: Any) -> Timing:
            return verify(Blocks(lambda _: 5.0), timing(5.0), mode)

    monkeypatch.setattr(Verifier, "replay", lambda *_: Verification(doubts=("quick",)))
    source = source_of(timer=Timer(), verify=verify)
    assert source.time(Call("t", "main", print), mode="hot", bytes=0, flops=0).verification == found


def source_of(**parts: Any) -> LiveSource:
    """Return a source of which nothing is used but some parts."""
    given: dict[str, Any] = {"counters": None, "timer": None, "codes": None, **parts}
    source = LiveSource(display=Display(News()), **given)
    source.tests["t"] = SelectedTest("t")
    return source


@pytest.fixture
def blocks_run(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the block sizes that Triton's own autotuner launches; to it, the smaller one is faster."""
    from autotuned_kernel import scale_kernel

    run: list[int] = []

    def bench(kernel_call: Callable[[], None], quantiles: object) -> float:
        del quantiles
        kernel_call()
        return run.pop()

    monkeypatch.setattr(scale_kernel.fn, "run", lambda *_, BLOCK, **__: run.append(BLOCK), raising=False)
    monkeypatch.setitem(vars(scale_kernel), "do_bench", bench)
    monkeypatch.setattr(scale_kernel, "cache", {})
    return run


@pytest.mark.parametrize(("stored", "found_us"), [(1024, 5.3), (2048, None)])
def test_slower_time_with_another_choice_is_taken_with_that_of_the_baseline(
    stored: int, found_us: float | None, blocks_run: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotuned_kernel import scale_kernel

    x = torch.ones(4)
    call = Call("t", "main", scale_kernel[(1,)], (x, x, 4))
    times = iter([9.0, 5.3])

    class Timer:
        def time(self, fn: Call, **_: Any) -> Timing:
            fn()
            return timing(next(times))

    config = f"BLOCK: {stored}, num_warps: 4, num_ctas: 1, num_stages: 3"
    other_choice = f"{LiveSource.__module__}.other_choice"
    monkeypatch.setattr(other_choice, lambda *_: {"scale_kernel": config})
    found = source_of(timer=Timer(), verify="off").time(call, mode="hot", bytes=0, flops=0)
    assert (found.time_us, found.autotuning.baseline_choice_us) == (9.0, found_us)
    # One call finds what calls write. The choice of this run is the smaller one, and stays.
    call()
    pinned = [1024] * 4 if found_us else [256] * 2
    assert blocks_run == [256, 256, *pinned, 256, 256, 256]


def twice(call: Call) -> Any:
    call()
    return call()


def test_test_on_several_gpus_has_no_counters() -> None:
    with pytest.raises(GpuperfError, match="ask for gpuperf_ranks"):
        source_of().profile(Call("unknown", "main", print), Selection())


GIVEN: Any = {"profile": {"kernels": Selection()}, "in_turn": {"mode": "hot"}}
GIVEN["time"] = GIVEN["in_turn"] | {"bytes": 0, "flops": 0}


@pytest.mark.parametrize("part", ["code", "in_turn", "profile", "time", "warm_up"])
def test_calls_of_each_measurement_are_undone(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(4, requires_grad=True)

    def backward() -> torch.Tensor:
        torch.autograd.backward((x * x).sum())
        return torch.rand(3)

    counters = SimpleNamespace(lookup=lambda call, *_: twice(call), let_go=lambda: None)
    codes = SimpleNamespace(read=lambda call: (twice(call), LaunchedCode())[1])
    timer = SimpleNamespace(warm_up=twice, time=lambda call, **_: (twice(call), timing())[1])
    source = source_of(counters=counters, codes=codes, timer=timer)
    numbers = torch.random.get_rng_state()
    monkeypatch.setattr(f"{LiveSource.__module__}.time_in_turn", lambda *given: twice(given[2]))
    others = [Call("t", "ref", int)] if part == "in_turn" else []
    getattr(source, part)(*others, Call("t", "main", backward), **GIVEN.get(part, {}))
    assert x.grad is None
    assert torch.equal(torch.random.get_rng_state(), numbers)
