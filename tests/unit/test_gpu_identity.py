"""The identity of the GPU, with fake torch properties and a fake NVML."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from pytest_gpuperf.measure.device.gpu_identity import gpu_info


class NvmlError(Exception):
    pass


@pytest.mark.parametrize("known", ["GPU-c410", "MIG-c410"])
def test_mig_slice_has_the_uuid_of_nvml(monkeypatch: pytest.MonkeyPatch, known: str) -> None:
    assert uuid_of("c410", monkeypatch, known) == known


def test_without_nvml_a_gpu_is_a_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert uuid_of("c410", monkeypatch) == "GPU-c410"


def uuid_of(bare: str, monkeypatch: pytest.MonkeyPatch, *known: str) -> str:
    def by_uuid(uuid: str) -> object:
        if uuid not in known:
            raise NvmlError("Not Found")
        return uuid

    nvml = SimpleNamespace(NVMLError=NvmlError, nvmlInit=lambda: None, nvmlDeviceGetHandleByUUID=by_uuid)
    properties = SimpleNamespace(
        name="NVIDIA H200",
        uuid=bare,
        major=9,
        minor=0,
        multi_processor_count=132,
        L2_cache_size=1,
        total_memory=2,
    )
    monkeypatch.setattr("pytest_gpuperf.measure.device.visible_gpus.pynvml", nvml)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    return gpu_info().uuid
