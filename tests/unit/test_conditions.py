"""The state of the GPU, with a fake NVML that may lack values."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.measure.device.conditions import Nvml, other_processes
from pytest_gpuperf.records import Conditions

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = Conditions(
    sm_clock_mhz=1935,
    max_sm_clock_mhz=1980,
    memory_clock_mhz=3201,
    temperature_c=45,
    power_w=311.4,
    throttle_reasons=("sw_power_cap",),
    other_processes=1,
)


class NvmlError(Exception):
    pass


def not_supported(*_: object) -> Any:
    raise NvmlError("Not Supported")


def nvml(**replaced: Callable[..., Any] | None) -> SimpleNamespace:
    """Return a fake NVML with all values; an argument replaces a function, None removes it."""
    functions: dict[str, Any] = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetClockInfo": lambda gpu, clock: {"sm": 1935, "memory": 3201}[clock],
        "nvmlDeviceGetMaxClockInfo": lambda gpu, clock: {"sm": 1980}[clock],
        "nvmlDeviceGetTemperature": lambda gpu, sensor: 45,
        "nvmlDeviceGetPowerUsage": lambda gpu: 311_432,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: 0x4,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda gpu: 0x4,
        "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [
            SimpleNamespace(pid=os.getpid()),
            SimpleNamespace(pid=-1),
        ],
    }
    there = {name: function for name, function in (functions | replaced).items() if function is not None}
    constants = {"NVML_CLOCK_SM": "sm", "NVML_CLOCK_MEM": "memory", "NVML_TEMPERATURE_GPU": 0}
    return SimpleNamespace(NVMLError=NvmlError, **there, **constants)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Conditions | None]:
    def conditions(**replaced: Callable[..., Any] | None) -> Conditions | None:
        monkeypatch.setattr("pytest_gpuperf.measure.device.conditions.pynvml", nvml(**replaced))
        return Nvml("GPU-1").conditions()

    return conditions


def test_all_nvml_values_are_read(read: Callable[..., Conditions | None]) -> None:
    assert read() == ALL


@pytest.mark.parametrize(
    ("function", "fields"),
    [
        ("nvmlDeviceGetClockInfo", ["sm_clock_mhz", "memory_clock_mhz"]),
        ("nvmlDeviceGetMaxClockInfo", ["max_sm_clock_mhz"]),
        ("nvmlDeviceGetTemperature", ["temperature_c"]),
        ("nvmlDeviceGetPowerUsage", ["power_w"]),
        ("nvmlDeviceGetComputeRunningProcesses", ["other_processes"]),
    ],
)
def test_unsupported_nvml_values_keep_their_defaults(
    read: Callable[..., Conditions | None], function: str, fields: list[str]
) -> None:
    told = {name: getattr(ALL, name) for name in ALL.__struct_fields__ if name not in fields}
    assert read(**{function: not_supported}) == Conditions(**told)


def test_peak_of_the_memory_is_two_transfers_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    told = nvml(
        nvmlDeviceGetMaxClockInfo=lambda gpu, clock: {"memory": 3201}[clock],
        nvmlDeviceGetMemoryBusWidth=lambda gpu: 6016,
    )
    monkeypatch.setattr("pytest_gpuperf.measure.device.conditions.pynvml", told)
    assert Nvml("GPU-1").dram_gb_per_s == pytest.approx(4814.3)


@pytest.mark.parametrize("bus", [not_supported, None], ids=["unknown to the driver", "unknown to pynvml"])
def test_peak_of_the_memory_is_unknown_without_its_bus(
    monkeypatch: pytest.MonkeyPatch, bus: Callable[..., Any] | None
) -> None:
    told = nvml(nvmlDeviceGetMaxClockInfo=lambda gpu, clock: 3201, nvmlDeviceGetMemoryBusWidth=bus)
    monkeypatch.setattr("pytest_gpuperf.measure.device.conditions.pynvml", told)
    assert Nvml("GPU-1").dram_gb_per_s == 0


@pytest.mark.parametrize("newer", [not_supported, None], ids=["unknown to the driver", "unknown to pynvml"])
def test_throttle_reasons_are_read_by_their_older_name(
    read: Callable[..., Conditions | None], newer: Callable[..., Any] | None
) -> None:
    assert read(nvmlDeviceGetCurrentClocksEventReasons=newer) == ALL


def test_throttle_reasons_that_cannot_be_read_are_none(read: Callable[..., Conditions | None]) -> None:
    found = read(
        nvmlDeviceGetCurrentClocksEventReasons=not_supported,
        nvmlDeviceGetCurrentClocksThrottleReasons=not_supported,
    )
    assert found is not None
    assert found.throttle_reasons == ()
    assert found.power_w == ALL.power_w


def test_conditions_are_none_without_nvml(read: Callable[..., Conditions | None]) -> None:
    assert read(nvmlInit=not_supported) is None


@pytest.mark.parametrize(
    ("clock", "bits", "expected"), [(1410, 0x1, False), (1095, 0x1, True), (1410, 0x2, True)]
)
def test_settings_that_hold_the_clock_are_known(
    monkeypatch: pytest.MonkeyPatch, clock: int, bits: int, expected: bool
) -> None:
    library = nvml(
        nvmlDeviceGetApplicationsClock=lambda gpu, kind: clock,
        nvmlDeviceGetDefaultApplicationsClock=lambda gpu, kind: 1410,
        nvmlDeviceGetCurrentClocksEventReasons=lambda gpu: bits,
    )
    monkeypatch.setattr("pytest_gpuperf.measure.device.conditions.pynvml", library)
    assert Nvml("GPU-1").clocks_are_set is expected


def test_other_processes_are_told_from_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gpuperf.measure.device.conditions.pynvml", nvml())
    assert other_processes("GPU-1") == [-1]
    monkeypatch.setattr("pytest_gpuperf.measure.device.conditions.pynvml", nvml(nvmlInit=not_supported))
    assert other_processes("GPU-1") is None
