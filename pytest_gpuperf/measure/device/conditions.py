"""What state the GPU is in, read through NVML."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pynvml

from pytest_gpuperf.records import Conditions

if TYPE_CHECKING:
    from collections.abc import Callable

_Value = TypeVar("_Value")

THROTTLE_REASONS = {
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}
"""Bits of `nvmlDeviceGetCurrentClocksEventReasons` that mean a clock was held back (nvml.h)."""


class Nvml:
    """Reads clocks, temperature, power and throttle reasons of one GPU.

    Where NVML cannot be used (a container without it), `conditions` returns None. What a GPU or its
    driver does not tell (the power of a laptop, of a MIG slice or below WSL) keeps the record's default.
    """

    def __init__(self, uuid: str) -> None:
        self._handle = None
        with suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)

    @property
    def max_sm_clock_mhz(self) -> int:
        """The highest SM clock that the GPU can have; 0 where NVML does not tell."""
        if (gpu := self._handle) is None:
            return 0
        return int(_read(lambda: pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM), 0))

    def clock_settings(self) -> str:
        """Application clocks and power limit, as they are set; zeros where NVML does not tell.

        Clocks that are locked (`nvidia-smi -lgc`) are not among what NVML tells.
        """
        if (gpu := self._handle) is None:
            return ""
        sm, memory = (
            _read(partial(pynvml.nvmlDeviceGetApplicationsClock, gpu, clock), 0)
            for clock in (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM)
        )
        power_w = _read(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu), 0) // 1000
        return f"{sm} MHz, memory {memory} MHz, {power_w} W"

    def conditions(self) -> Conditions | None:
        """The GPU's state now."""
        if (gpu := self._handle) is None:
            return None
        reasons = _throttle_bits(gpu)
        processes: list[Any] = _read(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(gpu), [])
        # In a container our own process may be listed under the host's number, but it is one of them.
        own = 1 if processes else 0
        if any(process.pid == os.getpid() for process in processes):
            own = sum(process.pid == os.getpid() for process in processes)
        return Conditions(
            sm_clock_mhz=_read(lambda: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM), 0),
            max_sm_clock_mhz=self.max_sm_clock_mhz,
            memory_clock_mhz=_read(lambda: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM), 0),
            temperature_c=_read(lambda: pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU), 0),
            power_w=round(_read(lambda: pynvml.nvmlDeviceGetPowerUsage(gpu), 0) / 1e3, 1),
            throttle_reasons=tuple(name for name, bit in THROTTLE_REASONS.items() if reasons & bit),
            other_processes=len(processes) - own,
        )


def _read(read: Callable[[], _Value], default: _Value) -> _Value:
    """What `read` returns; the default where NVML does not tell."""
    try:
        return read()
    except pynvml.NVMLError:
        return default


def _throttle_bits(gpu: object) -> int:
    """Bits of what holds the clocks back, 0 where NVML does not tell."""
    # The older name is the only one that drivers before 535 know.
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        with suppress(pynvml.NVMLError, AttributeError):
            return int(getattr(pynvml, name)(gpu))
    return 0


def driver_version() -> str:
    """Version of the NVIDIA driver, empty where NVML cannot be used."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    return ""
