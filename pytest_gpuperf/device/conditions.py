"""What state the GPU is in, read through NVML."""

from __future__ import annotations

import os
from contextlib import suppress

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


class Nvml:
    """Reads clocks, temperature, power and throttle reasons of one GPU.

    Where NVML cannot be used (a container without it), `conditions` returns None.
    """

    def __init__(self, uuid: str) -> None:
        self._handle = None
        with suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)

    def conditions(self) -> Conditions | None:
        """The GPU's state now."""
        if self._handle is None:
            return None
        reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        # In a container our own process may be listed under the host's number, but it is one of them.
        own = 1 if processes else 0
        if any(process.pid == os.getpid() for process in processes):
            own = sum(process.pid == os.getpid() for process in processes)
        return Conditions(
            sm_clock_mhz=pynvml.nvmlDeviceGetClockInfo(self._handle, pynvml.NVML_CLOCK_SM),
            memory_clock_mhz=pynvml.nvmlDeviceGetClockInfo(self._handle, pynvml.NVML_CLOCK_MEM),
            temperature_c=pynvml.nvmlDeviceGetTemperature(self._handle, pynvml.NVML_TEMPERATURE_GPU),
            power_w=round(pynvml.nvmlDeviceGetPowerUsage(self._handle) / 1e3, 1),
            throttle_reasons=tuple(name for name, bit in THROTTLE_REASONS.items() if reasons & bit),
            other_processes=len(processes) - own,
        )


def driver_version() -> str:
    """Version of the NVIDIA driver, empty where NVML cannot be used."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    return ""
