"""State of the GPU, read through NVML."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import pynvml

from pytest_gpuperf.records import Conditions

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

    def _ask(self, function: str, *arguments: object) -> Any:
        """Return what NVML tells about the GPU; 0 if GPU, driver or library do not tell."""
        if self._handle is not None:
            with suppress(pynvml.NVMLError, AttributeError):
                return getattr(pynvml, function)(self._handle, *arguments)
        return 0

    @property
    def max_sm_clock_mhz(self) -> int:
        """Highest SM clock of the GPU; 0 if NVML does not report it."""
        return int(self._ask("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM))

    @property
    def dram_gb_per_s(self) -> float:
        """Peak rate of the memory; 0 if NVML does not report clock or bus: two transfers a cycle."""
        mhz = self._ask("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_MEM)
        return float(2 * mhz * self._ask("nvmlDeviceGetMemoryBusWidth") / 8e3)

    @property
    def clocks_are_set(self) -> bool:
        """True if application or locked clocks hold the SM clock; some show only under load."""
        now, usual = (
            self._ask(f"nvmlDeviceGet{kind}ApplicationsClock", pynvml.NVML_CLOCK_SM)
            for kind in ("", "Default")
        )
        return now != usual or bool(self._throttle_bits() & SET_CLOCKS)

    def conditions(self) -> Conditions | None:
        """Return the present state of the GPU."""
        if self._handle is None:
            return None
        reasons = self._throttle_bits()
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses") or []
        # In a container NVML may list this process under the host's pid, but always lists it.
        own = sum(process.pid == os.getpid() for process in processes) or min(1, len(processes))
        return Conditions(
            sm_clock_mhz=self._ask("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM),
            max_sm_clock_mhz=self.max_sm_clock_mhz,
            memory_clock_mhz=self._ask("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM),
            temperature_c=self._ask("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
            power_w=round(self._ask("nvmlDeviceGetPowerUsage") / 1e3, 1),
            throttle_reasons=tuple(name for name, bit in THROTTLE_REASONS.items() if reasons & bit),
            other_processes=len(processes) - own,
        )

    def _throttle_bits(self) -> int:
        # Drivers before 535 know only the older name.
        names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
        return next(filter(None, map(self._ask, names)), 0)


def driver_version() -> str:
    """Return the version of the NVIDIA driver, empty if NVML cannot be used."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    return ""
