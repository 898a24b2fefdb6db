"""The GPUs that a process may use, with a fake NVML."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure.device import visible
from pytest_gpuperf.measure.device.visible import visible_gpus

NAMES = {"GPU-a": "NVIDIA H200", "GPU-b": "NVIDIA H100 80GB HBM3", "MIG-c": "NVIDIA H100 80GB HBM3"}


class NvmlError(Exception):
    pass


@pytest.fixture(autouse=True)
def _nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_index(index: int) -> str:
        if index > 1:
            raise NvmlError("Invalid Argument")
        return list(NAMES)[index]

    def by_uuid(uuid: str) -> str:
        if uuid not in NAMES:
            raise NvmlError("Not Found")
        return uuid

    fake = SimpleNamespace(
        NVMLError=NvmlError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=by_index,
        nvmlDeviceGetHandleByUUID=by_uuid,
        nvmlDeviceGetName=NAMES.__getitem__,
        nvmlDeviceGetUUID=lambda handle: handle,
    )
    monkeypatch.setattr(visible, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_all_gpus_are_visible_by_default() -> None:
    assert visible_gpus() == [("GPU-a", "nvidia-h200", "0"), ("GPU-b", "nvidia-h100-80gb-hbm3", "1")]


@pytest.mark.parametrize(
    ("named", "uuids"),
    [
        ("1,0", ["GPU-b", "GPU-a"]),
        ("GPU-b", ["GPU-b"]),
        ("MIG-c", ["MIG-c"]),
        ("0, -1, 1", ["GPU-a"]),
        ("", []),
    ],
)
def test_variable_chooses_and_orders_them(
    monkeypatch: pytest.MonkeyPatch, named: str, uuids: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert [gpu.uuid for gpu in visible_gpus()] == uuids


def test_without_a_driver_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise NvmlError("Driver Not Loaded")

    monkeypatch.setattr("pytest_gpuperf.measure.device.visible.pynvml.nvmlInit", fail)
    assert visible_gpus() == []
