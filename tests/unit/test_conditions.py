"""The state of the GPU, with a fake NVML that may lack values."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.measure.device.conditions import Nvml
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
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Nvml]:
    def made(**replaced: Callable[..., Any] | None) -> Nvml:
        monkeypatch.setattr("pytest_gpuperf.measure.device.conditions.pynvml", nvml(**replaced))
        return Nvml("GPU-1")

    return made


NEWER, OLDER = (f"nvmlDeviceGetCurrentClocks{kind}Reasons" for kind in ("Event", "Throttle"))


@pytest.mark.parametrize(
    ("functions", "fields"),
    [
        ([], []),
        (["nvmlDeviceGetClockInfo"], ["sm_clock_mhz", "memory_clock_mhz"]),
        (["nvmlDeviceGetMaxClockInfo"], ["max_sm_clock_mhz"]),
        (["nvmlDeviceGetComputeRunningProcesses"], ["other_processes"]),
        ([NEWER], []),
        ([NEWER, OLDER], ["throttle_reasons"]),
    ],
    ids=lambda names: " ".join(names) or "all",
)
@pytest.mark.parametrize("missing", [not_supported, None], ids=["unknown to the driver", "unknown to pynvml"])
def test_values_that_nvml_does_not_tell_keep_their_defaults(
    gpu: Callable[..., Nvml], functions: list[str], fields: list[str], missing: Callable[..., Any] | None
) -> None:
    told = {name: getattr(ALL, name) for name in ALL.__struct_fields__ if name not in fields}
    assert gpu(**dict.fromkeys(functions, missing)).conditions() == Conditions(**told)


def test_conditions_are_none_without_nvml(gpu: Callable[..., Nvml]) -> None:
    assert gpu(nvmlInit=not_supported).conditions() is None


@pytest.mark.parametrize(("bits", "rate"), [(lambda gpu: 6016, 4814.3), (not_supported, 0), (None, 0)])
def test_peak_of_the_memory_is_two_transfers_a_cycle(
    gpu: Callable[..., Nvml], bits: Callable[..., Any] | None, rate: float
) -> None:
    found = gpu(nvmlDeviceGetMaxClockInfo=lambda gpu, clock: 3201, nvmlDeviceGetMemoryBusWidth=bits)
    assert found.dram_gb_per_s == pytest.approx(rate)


@pytest.mark.parametrize(
    ("clock", "bits", "expected"), [(1410, 0x1, False), (1095, 0x1, True), (1410, 0x2, True)]
)
def test_settings_that_hold_the_clock_are_known(
    gpu: Callable[..., Nvml], clock: int, bits: int, expected: bool
) -> None:
    found = gpu(
        nvmlDeviceGetApplicationsClock=lambda gpu, kind: clock,
        nvmlDeviceGetDefaultApplicationsClock=lambda gpu, kind: 1410,
        nvmlDeviceGetCurrentClocksEventReasons=lambda gpu: bits,
    )
    assert found.clocks_are_set is expected
