"""Facts about the driver and one GPU from NVML, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pynvml

LIMITED_BY_SETTING = 0x2
"""Bit of the clock event reasons: application or locked clocks hold the clock (nvml.h)."""


@dataclass(frozen=True)
class Driver:
    """The driver and its number of GPUs."""

    version: str = ""
    cuda: tuple[int, int] | None = None
    """The newest CUDA that it runs."""
    gpus: int = 0
    error: str = ""
    """The reason why NVML cannot be used; empty if it can."""


@dataclass(frozen=True)
class GpuState:
    """One GPU, or one slice of it. None for facts that NVML does not have."""

    uuid: str
    persistence: bool | None = None
    sm_mhz: int | None = None
    most_sm_mhz: int | None = None
    memory_mhz: int | None = None
    application_mhz: int | None = None
    default_application_mhz: int | None = None
    event_bits: int | None = None
    """Reasons why the clocks are throttled now."""
    temperature_c: int | None = None
    slowdown_c: int | None = None
    """Temperature at which the hardware lowers the clocks."""
    power_mw: int | None = None
    limit_mw: int | None = None
    default_limit_mw: int | None = None
    ecc: tuple[bool, bool] | None = None
    """Now, and after the next reset."""
    mig: bool | None = None
    slices: tuple[int, int] | None = None
    """For a MIG slice: number of slices in its GPU instance, and in its compute instance."""
    pids: tuple[int, ...] | None = None
    """Compute processes, numbered as the host does."""
    gpm: bool | None = None
    """True if DCGM reads its metrics without the counters (GPM, Hopper and newer)."""


def read_driver() -> Driver:
    """Read the facts about the driver."""
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
    """Read the facts about a GPU; None if NVML does not know it. NVML must be initialised."""
    gpu = _ask("nvmlDeviceGetHandleByUUID", uuid)
    if gpu is None:
        return None
    is_slice = uuid.startswith("MIG")
    attributes = _ask("nvmlDeviceGetAttributes_v2", gpu) if is_slice else None
    # Clocks, temperature and modes are those of the whole GPU.
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
    """Return the UUID of the driver's first GPU; None if it has no GPU."""
    gpu = _ask("nvmlDeviceGetHandleByIndex", 0)
    return None if gpu is None else str(_ask("nvmlDeviceGetUUID", gpu))


def _ask(function: str, *arguments: object) -> Any:
    """Call NVML; None if this driver, this GPU or this pynvml has no answer."""
    try:
        return getattr(pynvml, function)(*arguments)
    except (pynvml.NVMLError, AttributeError):
        return None
