"""CUPTI counters compared with ncu counters of the same kernels, on a real GPU."""

from __future__ import annotations

from statistics import median

import pytest

from benchmarks.counter_agreement.agreement import contradictions, dram_bytes
from benchmarks.counter_agreement.measure import measure
from benchmarks.counter_agreement.results import LEAST_BYTES, Agreement, Results
from pytest_gpuperf.measure.ncu.tool import find_ncu
from pytest_gpuperf.metrics.presets import PRESETS

FACTS = [
    name
    for name in (*PRESETS["launch"], "shared_memory.dynamic")
    if name not in ("duration_us", "occupancy_limit.barriers")
]
STREAMED = ("square_torch", "square_triton", "softmax", "entropy", "sum_rows")
"""Kernels that read 134 MB once: more than twice the size of L2."""

pytestmark = [pytest.mark.skipif(find_ncu() is None, reason="needs ncu")]


@pytest.fixture(scope="module")
def results() -> Results:
    """Return the results of CUPTI and ncu for the kernels of the benchmark."""
    return measure()


def call_of(results: Results, name: str) -> Agreement:
    call = results.calls[name]
    assert not call.failure, call.failure
    assert len(call.cupti) == len(call.ncu) > 1
    return call


@pytest.mark.parametrize("name", LEAST_BYTES)
def test_cache_independent_values_agree_with_ncu(name: str, results: Results) -> None:
    assert [str(each) for each in contradictions(name, call_of(results, name))] == []


@pytest.mark.parametrize("name", STREAMED)
def test_traffic_after_a_flush_agrees_with_ncu(name: str, results: Results) -> None:
    call = call_of(results, name)
    assert median(dram_bytes(call.cupti)) == pytest.approx(median(dram_bytes(call.ncu)), rel=0.02)


@pytest.mark.parametrize("name", LEAST_BYTES)
def test_launch_values_agree_with_ncu(name: str, results: Results) -> None:
    call = call_of(results, name)
    for one, other in zip(call.cupti, call.ncu, strict=True):
        assert (one.name, one.grid, one.block) == (other.name, other.grid, other.block)
        facts = [{fact: reading.metrics.get(fact) for fact in FACTS} for reading in (one, other)]
        assert facts[0] == pytest.approx(facts[1], rel=1e-5)
