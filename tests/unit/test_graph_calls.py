"""Calls inside a captured graph, on a driver of our own."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from fake_driver import Driver
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device import driver as driver_module
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.device.driver import DriverError
from pytest_gpuperf.measure.timing import graph
from pytest_gpuperf.measure.timing.batch import HotBatch
from pytest_gpuperf.measure.timing.graph import CapturedCalls
from pytest_gpuperf.measure.verification import verifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(driver_module, "library", lambda: made)
    monkeypatch.setattr(originals, "current_stream", lambda: SimpleNamespace(cuda_stream=5))
    return made


def capture(driver: Driver, fn: Callable[[], Any], calls: int, flush: str = "") -> CapturedCalls:
    found = CapturedCalls(fn)
    for _ in range(calls):
        if flush:
            driver.kernel(flush)
        found()
    found.close()
    driver.graphs[driver.capturing].clear()
    return found


def batch_of(calls: CapturedCalls, at_places: Sequence[Any] = ()) -> HotBatch:
    """Return a batch that has timed calls of a graph."""
    batch = HotBatch.__new__(HotBatch)
    graph = SimpleNamespace(pool=lambda: (0, 1))
    vars(batch).update(captured=calls, graph=graph, fn=lambda: None, places=SimpleNamespace(calls=at_places))
    return batch


def test_one_call_launches_its_nodes_alone(driver: Driver) -> None:
    numbers = itertools.count()
    calls = capture(driver, lambda: driver.kernels(f"k{next(numbers)}", "same"), 3, "fill")
    calls.only(1).launch()
    assert driver.launched == [["k1", "same"]]
    assert (len(calls), calls.unavailable) == (3, "")


def test_calls_are_grouped_by_their_kernels(driver: Driver) -> None:
    names = iter(["long", "a", "b", "fill"])
    calls = capture(driver, lambda: driver.kernel(next(names)), 4)
    assert sorted(calls.kinds().values()) == [[0], [1, 2], [3]]


def test_sample_has_the_last_call_and_all_kinds(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals, "event", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_snapshot", list)
    numbers = itertools.count()
    calls = capture(driver, lambda: driver.kernel("work" if next(numbers) == 17 else "idle!"), 100)
    found = verifier.reruns_of(batch_of(calls, at_places=[lambda: None] * 3))
    kept = [not one.live for one in found]
    assert kept == [True, False, False, *[True] * (verifier.RERUN_CALLS - 1), *[False] * verifier.PLAIN_CALLS]
    for one in (found[0], found[3]):
        one._call()
    assert driver.launched == [["idle!"], ["work"]]


@pytest.mark.parametrize(
    ("nodes", "launches"), [(["k", "fill", "copy", "event"], 3), (["k", "graph"], inf), ([], 0)]
)
def test_launches_are_kernels_fills_and_copies(driver: Driver, nodes: list[str], launches: float) -> None:
    of_calls = iter([["k"] if nodes else [], nodes])
    calls = capture(driver, lambda: driver.kernels(*next(of_calls)), 2, "fill")
    assert calls.launches == launches
    driver.refuses = "cuGraphNodeGetType"
    assert calls.launches == (inf if nodes else 0)


@pytest.mark.parametrize("function", ["cuStreamGetCaptureInfo_v2", "cuGraphGetNodes", "cuGraphClone"])
def test_refusal_of_the_driver_does_not_end_the_capture(driver: Driver, function: str) -> None:
    driver.refuses = function
    calls = capture(driver, lambda: driver.kernel("k"), 2)
    assert calls.unavailable == f"the CUDA driver's {function} failed with error 999"
    with pytest.raises(GpuperfError, match=function):
        verifier.reruns_of(batch_of(calls))


def test_former_value_is_gone_before_the_next_call(driver: Driver) -> None:
    calls: list[CapturedCalls] = []
    alive: list[object] = []

    def fn() -> object:
        alive.append(calls[0].value)
        return object()

    calls.append(CapturedCalls(fn))
    calls[0]()
    calls[0]()
    assert alive == [None, None]


def test_output_elsewhere_must_be_in_memory_of_torch(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = iter([torch.ones(2, 3), torch.zeros(2, 3)])
    monkeypatch.setattr(graph, "_is_on_gpu", lambda _: True)
    monkeypatch.setattr(torch.cuda, "memory_snapshot", list)
    calls = capture(driver, lambda: (next(outputs),), 2)
    assert calls.unavailable == ""
    with pytest.raises(DriverError, match="memory that torch does not hold"):
        calls.value_of(0)


def test_driver_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    driver_module.library.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setattr(originals, "current_stream", lambda: SimpleNamespace(cuda_stream=5))
    calls = CapturedCalls(lambda: None)
    calls()
    assert calls.unavailable.startswith("the CUDA driver cannot be loaded: libcuda.so.1")
    driver_module.library.cache_clear()


@dataclass(frozen=True)
class Pair:
    y: Any
    others: Any


def test_output_of_another_call_is_in_its_own_place(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[int, torch.Tensor] = {}
    host = torch.zeros(2)
    monkeypatch.setattr(graph, "_is_on_gpu", lambda tensor: tensor is not host)
    monkeypatch.setattr(graph, "_tensor", lambda place: found[place.address])

    def fn() -> dict[str, list[object]]:
        output = torch.randn(3, dtype=torch.complex64)
        found[output.data_ptr()] = output
        return {"a": [Pair(output, host), "text"]}

    calls = capture(driver, fn, 2)
    own, last = found.values()
    assert calls.value_of(0) == {"a": [Pair(own, host), "text"]}
    assert calls.value_of(1) == {"a": [Pair(last, host), "text"]}
