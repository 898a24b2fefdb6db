"""Persisting memory in the L2, with a driver that notes what it is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from cuda_header import cuda_numbers
from pytest_gpuperf.against import fork_server
from pytest_gpuperf.measure.device import driver as cuda_driver
from pytest_gpuperf.measure.device import memory, originals

if TYPE_CHECKING:
    from types import ModuleType

    import torch


PERSISTING = "CU_LIMIT_PERSISTING_L2_CACHE_SIZE"
UNSUPPORTED = 215
"""`CUDA_ERROR_UNSUPPORTED_LIMIT`."""
MOST_PERSISTING = 32 << 20


class Driver:
    """The functions of libcuda that `l2` calls, with a table of limits by their numbers in cuda.h."""

    def __init__(self, persisting: int) -> None:
        numbers = cuda_numbers()
        self.names = {number: name for name, number in numbers.items() if name.startswith("CU_LIMIT_")}
        self.limits = dict.fromkeys(self.names.values(), 64)
        self.limits[PERSISTING] = persisting
        self._window = numbers["CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW"]
        self.windows = {7: b"of the user"}
        """Access policy of each stream."""
        self.asked: list[str] = []

    def cuCtxGetLimit(self, size: Any, limit: int) -> int:
        if limit not in self.names:
            return UNSUPPORTED
        size._obj.value = self.limits[self.names[limit]]
        return 0

    def cuCtxSetLimit(self, limit: int, size: Any) -> int:
        if limit not in self.names:
            return UNSUPPORTED
        name = self.names[limit]
        self.limits[name] = min(size.value, MOST_PERSISTING if name == PERSISTING else 128)
        self.asked.append(f"{name} {size.value}")
        return 0

    def cuCtxResetPersistingL2Cache(self) -> int:
        self.asked.append("reset")
        return 0

    def cuStreamGetAttribute(self, stream: Any, attribute: int, value: Any) -> int:
        if attribute != self._window or len(value.raw) < 64:
            return 1
        value.raw = self.windows[stream.value].ljust(len(value.raw), b"\0")
        return 0

    def cuStreamSetAttribute(self, stream: Any, attribute: int, value: Any) -> int:
        if attribute != self._window or len(value.raw) < 64:
            return 1
        self.windows[stream.value] = value.raw.rstrip(b"\0")
        return 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Driver:
    fake = Driver(request.param)
    monkeypatch.setattr("pytest_gpuperf.measure.device.driver.library", lambda: fake)
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    monkeypatch.setattr(originals, "current_stream", lambda: SimpleNamespace(cuda_stream=7))
    monkeypatch.setattr(originals, "synchronize", lambda: fake.asked.append("synchronize"))
    return fake


@pytest.mark.parametrize("module", [cuda_driver, fork_server])
def test_numbers_of_cuda_are_those_of_its_header(module: ModuleType) -> None:
    numbers = {name: one for name, one in vars(module).items() if name.startswith(("CU_", "CUDA_"))}
    assert numbers == {name: cuda_numbers()[name] for name in numbers} != {}


@pytest.mark.parametrize(
    ("driver", "asked"), [(0, []), (64, ["synchronize", f"{PERSISTING} 0", "reset"])], indirect=["driver"]
)
def test_lines_are_reset_only_if_memory_is_set_aside(driver: Driver, asked: list[str]) -> None:
    memory.reset_l2()
    assert driver.asked == asked
    assert memory.persisting_bytes() == 0


@pytest.mark.parametrize("driver", [64], indirect=True)
def test_end_of_a_test_restores_the_limit_and_the_stream(driver: Driver) -> None:
    with memory.l2_reset_after():
        memory.reset_l2()
        driver.limits[PERSISTING] = 1 << 20
        driver.windows[7] = b"of the call"
        driver.asked.clear()
    assert (driver.asked, driver.windows) == (["reset", f"{PERSISTING} 64"], {7: b"of the user"})


@pytest.mark.parametrize("driver", [64], indirect=True)
def test_end_of_a_failed_test_resets_too(driver: Driver) -> None:
    with pytest.raises(KeyError), memory.l2_reset_after():
        raise KeyError
    assert "reset" in driver.asked


def test_without_a_driver_nothing_persists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gpuperf.measure.device.driver.library", SimpleNamespace)
    memory.reset_l2()
    assert memory.persisting_bytes() == 0


@pytest.mark.parametrize("driver", [0], indirect=True)
def test_a_clean_flush_reads_four_times_the_l2_and_writes_nothing(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, int]] = []
    total = originals.total

    def noted(tensor: torch.Tensor) -> torch.Tensor:
        read.append((tensor.nbytes, int(total(tensor))))
        return total(tensor)

    monkeypatch.setattr(originals, "total", noted)
    flush = memory.CleanFlush(1024, device="cpu")
    flush()
    flush()
    assert (read, driver.asked) == ([(4096, 0)] * 2, [])


@pytest.mark.parametrize("driver", [64], indirect=True)
def test_a_flush_costs_a_test_nothing_that_it_has_set_aside(driver: Driver) -> None:
    with memory.set_aside_restored():
        memory.CleanFlush(1024, device="cpu")()
        assert memory.persisting_bytes() == 0
    assert memory.persisting_bytes() == 64
