"""Calls around a timing leave what they write as it was."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from pytest_gpuperf.records import LaunchedCode
from pytest_gpuperf.records.call import Call
from pytest_gpuperf.records.selection import Selection
from pytest_gpuperf.session.live_source import LiveSource
from pytest_gpuperf.session.phases import Phases


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
    source = LiveSource(
        counters=cast("Any", counters),
        tests={"t": cast("Any", SimpleNamespace(metrics=()))},
        timer=cast("Any", None),
        known=lambda *_: None,
        progress=lambda _: None,
        traces=Path(),
        alone=nullcontext,
        codes=cast("Any", SimpleNamespace(read=lambda call: (twice(call), LaunchedCode())[1])),
        phases=Phases(),
    )
    numbers = torch.random.get_rng_state()
    call = Call("t", "main", backward)
    if part == "code":
        source.code(call)
    else:
        source.profile(call, Selection())
    assert x.grad is None
    assert torch.equal(torch.random.get_rng_state(), numbers)
