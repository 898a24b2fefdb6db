"""Calls around a timing leave what they write as it was."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import torch

from pytest_gpuperf.measure.timing.prepared import Prepared
from pytest_gpuperf.measure.verification.verifier import Verifier
from pytest_gpuperf.records import LaunchedCode, Verification
from pytest_gpuperf.records.call import Call, Selection
from pytest_gpuperf.session.live_source import LiveSource
from pytest_gpuperf.session.phases import Phases
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
            return verify(Prepared(Blocks(lambda _: 5.0), "hot"), timing(5.0), mode)

    monkeypatch.setattr(Verifier, "replay", lambda *_: Verification(doubts=("quick",)))
    source = source_of(timer=Timer(), verify=verify)
    assert source.time(Call("t", "main", print), mode="hot", bytes=0, flops=0).verification == found


def source_of(**parts: Any) -> LiveSource:
    """Return a source of which nothing is used but some parts."""
    given: dict[str, Any] = {"counters": None, "timer": None, "codes": None, **parts}
    return LiveSource(
        tests={"t": cast("Any", SimpleNamespace(metrics=()))},
        known=lambda *_: None,
        progress=lambda _: None,
        traces=Path(),
        alone=nullcontext,
        phases=Phases(),
        **given,
    )


def twice(call: Call) -> Any:
    call()
    return call()


@pytest.mark.parametrize("part", ["code", "profile"])
def test_calls_for_code_and_counters_are_undone(part: str) -> None:
    x = torch.ones(4, requires_grad=True)

    def backward() -> torch.Tensor:
        torch.autograd.backward((x * x).sum())
        return torch.rand(3)

    counters = SimpleNamespace(lookup=lambda call, *_: twice(call), let_go=lambda: None)
    codes = SimpleNamespace(read=lambda call: (twice(call), LaunchedCode())[1])
    source = source_of(counters=counters, codes=codes)
    numbers = torch.random.get_rng_state()
    call = Call("t", "main", backward)
    if part == "code":
        source.code(call)
    else:
        source.profile(call, Selection())
    assert x.grad is None
    assert torch.equal(torch.random.get_rng_state(), numbers)
