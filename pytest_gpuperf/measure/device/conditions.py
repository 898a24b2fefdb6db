"""State of the GPU, read through NVML."""

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
SET_CLOCKS = 0x2
"""The bit that means application or locked clocks hold the clock."""


class Nvml:
    """Reads clocks, temperature, power and throttle reasons of one GPU.

    `conditions` returns None if NVML cannot be used (a container without it). A value that the GPU or its
    driver does not report (power of a laptop, of a MIG slice or below WSL) keeps the record's default.
    """

    def __init__(self, uuid: str) -> None:
        self._handle = None
        with suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)

    @property
    def max_sm_clock_mhz(self) -> int:
        """Highest SM clock of the GPU; 0 if NVML does not report it."""
        if (gpu := self._handle) is None:
            return 0
        return int(_read(lambda: pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM), 0))

    @property
    def dram_gb_per_s(self) -> float:
        """Peak rate of the memory; 0 if NVML does not report clock or bus: two transfers a cycle."""
        if (gpu := self._handle) is None:
            return 0.0
        mhz = _read(lambda: pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_MEM), 0)
        with suppress(AttributeError):  # a driver before 515
            return 2 * mhz * _read(lambda: pynvml.nvmlDeviceGetMemoryBusWidth(gpu), 0) / 8e3
        return 0.0

    @property
    def clocks_are_set(self) -> bool:
        """True if application or locked clocks hold the SM clock; some show only under load."""
        if (gpu := self._handle) is None:
            return False
        now, usual = (
            _read(partial(read, gpu, pynvml.NVML_CLOCK_SM), 0)
            for read in (pynvml.nvmlDeviceGetApplicationsClock, pynvml.nvmlDeviceGetDefaultApplicationsClock)
        )
        return now != usual or bool(_throttle_bits(gpu) & SET_CLOCKS)

    def conditions(self) -> Conditions | None:
        """Return the present state of the GPU."""
        if (gpu := self._handle) is None:
            return None
        reasons = _throttle_bits(gpu)
        processes: list[Any] = _read(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(gpu), [])
        # In a container NVML may list this process under the host's pid, but always lists it.
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
    """Return the result of `read`, or the default if NVML does not report the value."""
    try:
        return read()
    except pynvml.NVMLError:
        return default


def _throttle_bits(gpu: object) -> int:
    """Return the throttle reasons as bits, 0 if NVML does not report them."""
    # Drivers before 535 know only the older name.
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        with suppress(pynvml.NVMLError, AttributeError):
            return int(getattr(pynvml, name)(gpu))
    return 0


def other_processes(uuid: str) -> list[int] | None:
    """Return the process ids that compute on a GPU, without this one; None if NVML does not tell.

    In a container, ids are those of the host.
    """
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        pids = [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)]
        return [pid for pid in pids if pid != os.getpid()]
    return None


def driver_version() -> str:
    """Return the version of the NVIDIA driver, empty if NVML cannot be used."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    return ""
