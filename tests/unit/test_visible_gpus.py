"""The GPUs that a process may use, with a fake driver and a fake NVML."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device import visible_gpus

NAMES = ["NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"]
UUIDS = [str(uuid.UUID(int=number)) for number in (3, 1, 2)]


class NvmlError(Exception):
    pass


def call(function: str, *arguments: Any) -> None:
    """Answer in CUDA's order, in which the fastest comes first."""
    if function == "cuDeviceGetCount":
        arguments[0]._obj.value = len(UUIDS)
    elif function == "cuDeviceGet":
        arguments[0]._obj.value = arguments[1]
    elif function == "cuDeviceGetUuid_v2":
        arguments[0].raw = uuid.UUID(UUIDS[arguments[1].value]).bytes
    elif function == "cuDeviceGetName":
        arguments[0].value = NAMES[arguments[2].value].encode()


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_uuid(name: str) -> None:
        if name not in (f"GPU-{UUIDS[0]}", f"GPU-{UUIDS[1]}", f"MIG-{UUIDS[2]}"):
            raise NvmlError

    fake = SimpleNamespace(NVMLError=NvmlError, nvmlInit=lambda: None, nvmlDeviceGetHandleByUUID=by_uuid)
    monkeypatch.setattr(visible_gpus, "pynvml", fake)
    monkeypatch.setattr(visible_gpus, "call", call)
    answered = SimpleNamespace(stdout=visible_gpus._devices())
    monkeypatch.setattr(visible_gpus, "ask_apart", lambda *_: answered)


def test_gpus_have_the_order_of_cuda() -> None:
    assert visible_gpus.visible_gpus() == [
        (f"GPU-{UUIDS[0]}", "nvidia-h200"),
        (f"GPU-{UUIDS[1]}", "nvidia-h100-80gb-hbm3"),
        (f"MIG-{UUIDS[2]}", "nvidia-h100-80gb-hbm3-mig-1g-10gb"),
    ]


def test_without_a_driver_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise GpuperfError("the CUDA driver cannot be loaded")

    monkeypatch.setattr(visible_gpus, "call", fail)
    assert visible_gpus._devices() == b""


def test_child_answers_on_its_own() -> None:
    from pytest_gpuperf.processes.module_process import ask_apart

    assert ask_apart(visible_gpus.__name__, b"").returncode == 0
