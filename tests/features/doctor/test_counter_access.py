"""The one counter that doctor reads, with a fake CUPTI."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from fake_cupti import FakeCupti, install_on_a_gpu
from pytest_gpuperf.features.doctor import counter_access
from pytest_gpuperf.measure.cupti.libcupti import CuptiError


@pytest.mark.parametrize("refusals", [{}, {"RangeProfilerStart": 43}])
def test_one_counter_is_tried_and_cupti_detached(
    monkeypatch: pytest.MonkeyPatch, refusals: dict[str, int]
) -> None:
    install_on_a_gpu(monkeypatch, FakeCupti())
    made = FakeCupti({counter_access.CYCLES: 5.0}, refusals=refusals)
    monkeypatch.setattr(counter_access, "why_no_range_profiler", str)
    monkeypatch.setattr(counter_access, "cupti", lambda: made)
    monkeypatch.setattr(torch, "zeros", lambda *_, device: torch.ones(1))
    with pytest.raises(CuptiError, match="slice of a GPU") if refusals else nullcontext():
        counter_access.read_one()
    assert "RangeProfilerStart" in made.called
    assert made.state == "away"
