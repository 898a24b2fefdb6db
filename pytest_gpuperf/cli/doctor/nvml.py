"""What NVML says of the driver and of one GPU, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pynvml

LIMITED_BY_SETTING = 0x2
"""Bit of the clock event reasons: application or locked clocks hold the clock where it is (nvml.h)."""


@dataclass(frozen=True)
class Driver:
    """The driver, and how many GPUs it has."""

    version: str = ""
    cuda: tuple[int, int] | None = None
    """The newest CUDA that it runs."""
    gpus: int = 0
    error: str = ""
    """Why NVML cannot be used; empty where it can."""


@dataclass(frozen=True)
class GpuState:
    """One GPU, or one slice of it. None is what NVML does not tell."""

    uuid: str
    persistence: bool | None = None
    sm_mhz: int | None = None
    most_sm_mhz: int | None = None
    memory_mhz: int | None = None
    application_mhz: int | None = None
    default_application_mhz: int | None = None
    event_bits: int | None = None
    """What holds the clocks back now."""
    temperature_c: int | None = None
    slowdown_c: int | None = None
    """Where the hardware takes the clocks down."""
    power_mw: int | None = None
    limit_mw: int | None = None
    default_limit_mw: int | None = None
    ecc: tuple[bool, bool] | None = None
    """Now, and after the next reset."""
    mig: bool | None = None
    slices: tuple[int, int] | None = None
    """Of a MIG slice: slices of its GPU instance, and those of them that its compute instance has."""
    pids: tuple[int, ...] | None = None
    """Compute processes, numbered as the host does."""
    gpm: bool | None = None
    """Whether DCGM reads its metrics beside the counters (GPM, Hopper and newer)."""


def read_driver() -> Driver:
    """Ask NVML who it is."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Driver(error=str(error))
    cuda = _ask("nvmlSystemGetCudaDriverVersion")
    return Driver(
        version=str(_ask("nvmlSystemGetDriverVersion") or ""),
        cuda=None if cuda is None else (cuda // 1000, cuda % 1000 // 10),
        gpus=_ask("nvmlDeviceGetCount") or 0,
    )


def read_gpu(uuid: str) -> GpuState | None:
    """Ask NVML, which has to be at hand, about a GPU; None where it does not know the GPU."""
    gpu = _ask("nvmlDeviceGetHandleByUUID", uuid)
    if gpu is None:
        return None
    is_slice = uuid.startswith("MIG")
    attributes = _ask("nvmlDeviceGetAttributes_v2", gpu) if is_slice else None
    # A slice has no clocks, temperature or mode of its own.
    whole = (_ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", gpu) if is_slice else None) or gpu
    persistence = _ask("nvmlDeviceGetPersistenceMode", whole)
    ecc = _ask("nvmlDeviceGetEccMode", whole)
    mig = _ask("nvmlDeviceGetMigMode", whole)
    pids = _ask("nvmlDeviceGetComputeRunningProcesses", gpu)
    gpm = _ask("nvmlGpmQueryDeviceSupport", whole)
    bits = _ask("nvmlDeviceGetCurrentClocksEventReasons", whole)
    if bits is None:  # the older name is the only one that drivers before 535 know
        bits = _ask("nvmlDeviceGetCurrentClocksThrottleReasons", whole)
    sm = pynvml.NVML_CLOCK_SM
    return GpuState(
        uuid=uuid,
        persistence=None if persistence is None else bool(persistence),
        sm_mhz=_ask("nvmlDeviceGetClockInfo", whole, sm),
        most_sm_mhz=_ask("nvmlDeviceGetMaxClockInfo", whole, sm),
        memory_mhz=_ask("nvmlDeviceGetClockInfo", whole, pynvml.NVML_CLOCK_MEM),
        application_mhz=_ask("nvmlDeviceGetApplicationsClock", whole, sm),
        default_application_mhz=_ask("nvmlDeviceGetDefaultApplicationsClock", whole, sm),
        event_bits=bits,
        temperature_c=_ask("nvmlDeviceGetTemperature", whole, pynvml.NVML_TEMPERATURE_GPU),
        slowdown_c=_ask(
            "nvmlDeviceGetTemperatureThreshold", whole, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        ),
        power_mw=_ask("nvmlDeviceGetPowerUsage", whole),
        limit_mw=_ask("nvmlDeviceGetPowerManagementLimit", whole),
        default_limit_mw=_ask("nvmlDeviceGetPowerManagementDefaultLimit", whole),
        ecc=None if ecc is None else (bool(ecc[0]), bool(ecc[1])),
        mig=None if mig is None else bool(mig[0]),
        slices=None
        if attributes is None
        else (int(attributes.gpuInstanceSliceCount), int(attributes.computeInstanceSliceCount)),
        pids=None if pids is None else tuple(process.pid for process in pids),
        gpm=None if gpm is None else bool(gpm.isSupportedDevice),
    )


def first_uuid() -> str | None:
    """UUID of the first GPU that the driver has; None where it has none."""
    gpu = _ask("nvmlDeviceGetHandleByIndex", 0)
    return None if gpu is None else str(_ask("nvmlDeviceGetUUID", gpu))


def _ask(function: str, *arguments: object) -> Any:
    """What NVML answers; None where this driver, this GPU or this pynvml has no answer."""
    try:
        return getattr(pynvml, function)(*arguments)
    except (pynvml.NVMLError, AttributeError):
        return None
