"""The one counter that doctor reads, with a fake CUPTI."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from fake_cupti import CONTEXT, FakeCupti, install
from pytest_gpuperf.features.doctor import one_counter
from pytest_gpuperf.measure.cupti import range_profiler
from pytest_gpuperf.measure.cupti.libcupti import CuptiError


@pytest.mark.parametrize("refusals", [{}, {"RangeProfilerStart": 43}])
def test_one_counter_is_tried_and_cupti_detached(
    monkeypatch: pytest.MonkeyPatch, refusals: dict[str, int]
) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(range_profiler, "_current_context", lambda: CONTEXT)
    install(monkeypatch, FakeCupti())
    made = FakeCupti({one_counter.CYCLES: 5.0}, refusals=refusals)
    monkeypatch.setattr(one_counter, "why_no_range_profiler", str)
    monkeypatch.setattr(one_counter, "cupti", lambda: made)
    monkeypatch.setattr(torch, "zeros", lambda *_, device: torch.ones(1))
    with pytest.raises(CuptiError, match="slice of a GPU") if refusals else nullcontext():
        one_counter.read_one()
    assert "RangeProfilerStart" in made.called
    assert made.state == "away"
