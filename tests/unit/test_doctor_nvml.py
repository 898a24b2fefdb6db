"""`gpuperf doctor`: facts from NVML, with a fake NVML."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from doctor_builders import STATE, UUID
from pytest_gpuperf.cli.doctor.nvml import Driver, GpuState, first_uuid, read_driver, read_gpu

if TYPE_CHECKING:
    from collections.abc import Callable

CONSTANTS = {
    "NVML_CLOCK_SM": "sm",
    "NVML_CLOCK_MEM": "memory",
    "NVML_TEMPERATURE_GPU": 0,
    "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN": 1,
}


class NvmlError(Exception):
    pass


def refused(*_: object) -> Any:
    raise NvmlError("Not Supported")


H200: dict[str, Callable[..., Any]] = {
    "nvmlInit": lambda: None,
    "nvmlSystemGetDriverVersion": lambda: "580.159.04",
    "nvmlSystemGetCudaDriverVersion": lambda: 13000,
    "nvmlDeviceGetCount": lambda: 2,
    "nvmlDeviceGetHandleByIndex": lambda index: index,
    "nvmlDeviceGetUUID": lambda gpu: UUID,
    "nvmlDeviceGetHandleByUUID": lambda uuid: "gpu",
    "nvmlDeviceGetPersistenceMode": lambda gpu: 1,
    "nvmlDeviceGetClockInfo": lambda gpu, clock: {"sm": 345, "memory": 3201}[clock],
    "nvmlDeviceGetMaxClockInfo": lambda gpu, clock: 1980,
    "nvmlDeviceGetApplicationsClock": refused,
    "nvmlDeviceGetDefaultApplicationsClock": refused,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: 0x1,
    "nvmlDeviceGetTemperature": lambda gpu, sensor: 31,
    "nvmlDeviceGetTemperatureThreshold": lambda gpu, threshold: 87,
    "nvmlDeviceGetPowerUsage": lambda gpu: 77_100,
    "nvmlDeviceGetPowerManagementLimit": lambda gpu: 700_000,
    "nvmlDeviceGetPowerManagementDefaultLimit": lambda gpu: 700_000,
    "nvmlDeviceGetEccMode": lambda gpu: [1, 1],
    "nvmlDeviceGetMigMode": lambda gpu: [0, 0],
    "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [],
    "nvmlGpmQueryDeviceSupport": lambda gpu: SimpleNamespace(isSupportedDevice=1),
}


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def install(**replaced: Callable[..., Any] | None) -> None:
        functions = {name: function for name, function in (H200 | replaced).items() if function}
        fake = SimpleNamespace(NVMLError=NvmlError, **functions, **CONSTANTS)
        monkeypatch.setattr("pytest_gpuperf.cli.doctor.nvml.pynvml", fake)

    return install


def test_full_state_of_a_gpu_is_read(nvml: Callable[..., None]) -> None:
    nvml()
    assert read_driver() == Driver("580.159.04", (13, 0), 2)
    assert first_uuid() == UUID
    assert read_gpu(UUID) == STATE


def test_unknown_facts_are_none(nvml: Callable[..., None]) -> None:
    asked = [name for name in H200 if name.startswith(("nvmlDeviceGet", "nvmlGpm"))]
    nvml(**{**dict.fromkeys(asked, refused), "nvmlDeviceGetHandleByUUID": lambda uuid: "gpu"})
    assert read_gpu(UUID) == GpuState(uuid=UUID)


def test_throttle_reasons_are_read_by_their_older_name(nvml: Callable[..., None]) -> None:
    nvml(
        nvmlDeviceGetCurrentClocksEventReasons=None, nvmlDeviceGetCurrentClocksThrottleReasons=lambda gpu: 0x4
    )
    state = read_gpu(UUID)
    assert state is not None
    assert state.event_bits == 0x4


def test_slice_has_clocks_of_its_gpu_and_own_processes(nvml: Callable[..., None]) -> None:
    nvml(
        nvmlDeviceGetHandleByUUID=lambda uuid: "slice",
        nvmlDeviceGetDeviceHandleFromMigDeviceHandle=lambda handle: "gpu",
        nvmlDeviceGetAttributes_v2=lambda handle: SimpleNamespace(
            gpuInstanceSliceCount=2, computeInstanceSliceCount=1
        ),
        nvmlDeviceGetMigMode=lambda handle: {"gpu": [1, 1]}[handle],
        nvmlDeviceGetPersistenceMode=lambda handle: {"gpu": 1}[handle],
        nvmlDeviceGetComputeRunningProcesses=lambda handle: {"slice": [SimpleNamespace(pid=7)]}[handle],
    )
    state = read_gpu("MIG-c410")
    assert state is not None
    assert (state.mig, state.slices, state.pids) == (True, (2, 1), (7,))


def test_unknown_gpu_has_no_state(nvml: Callable[..., None]) -> None:
    nvml(nvmlDeviceGetHandleByUUID=refused)
    assert read_gpu(UUID) is None


def test_without_a_driver_the_reason_is_kept(nvml: Callable[..., None]) -> None:
    nvml(nvmlInit=refused)
    assert read_driver() == Driver(error="Not Supported")


def test_driver_without_gpus_has_no_uuid(nvml: Callable[..., None]) -> None:
    nvml(nvmlDeviceGetCount=lambda: 0, nvmlDeviceGetHandleByIndex=refused)
    assert read_driver().gpus == 0
    assert first_uuid() is None
