from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

import pynvml
import pytest

from pytest_gpuperf.measure.device import gpu_detection
from pytest_gpuperf.measure.device.gpu_detection import may_measure, why_no_gpu

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that there is one GPU with a driver for CUDA 12.4."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlSystemGetCudaDriverVersion", lambda: 12040)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 1)


def torch_built_for(folder: Path, patch: pytest.MonkeyPatch, cuda: str, hip: str) -> None:
    version = f"__version__ = '2.11.0'\ncuda: Optional[str] = {cuda}\nhip: Optional[str] = {hip}\n"
    (folder / "version.py").write_text(version)
    torch = type(sys)("torch")
    torch.__spec__ = ModuleSpec("torch", None, origin=str(folder / "__init__.py"))
    patch.setitem(sys.modules, "torch", torch)


@pytest.mark.parametrize(
    ("cuda", "may"), [("'12.8'", True), ("'11.8'", True), ("'13.0'", False), ("None", False)]
)
def test_torch_must_be_built_for_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: None, cuda: str, may: bool
) -> None:
    torch_built_for(tmp_path, monkeypatch, cuda, hip="None")
    assert may_measure() is may


def test_torch_for_rocm_cannot_measure_and_says_what_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: None
) -> None:
    torch_built_for(tmp_path, monkeypatch, "None", hip="'7.0.51831'")
    assert not may_measure()
    assert why_no_gpu() == (
        "measuring needs a torch for CUDA, and this one is for ROCm; here a replay and gpuperf.static run"
    )


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_other_systems_cannot_measure(monkeypatch: pytest.MonkeyPatch, driver: None, system: str) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert not may_measure()
    assert why_no_gpu().startswith("measuring needs Linux with an NVIDIA GPU, and this is ")


def test_hidden_gpu_cannot_measure(monkeypatch: pytest.MonkeyPatch, driver: None) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not may_measure()


@pytest.mark.parametrize("gpus", [["Orin"], []])
def test_driver_is_asked_where_nvml_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: None, gpus: list[str]
) -> None:
    def missing(name: str = "") -> None:
        raise OSError if name else pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    torch_built_for(tmp_path, monkeypatch, "'12.6'", hip="None")
    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    monkeypatch.setattr(gpu_detection, "visible_gpus", lambda: gpus)
    monkeypatch.setattr("ctypes.CDLL", missing)
    assert not may_measure()  # no driver
    monkeypatch.setattr("ctypes.CDLL", lambda name: None)
    assert may_measure() is bool(gpus)


def test_torch_is_not_imported_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr("ctypes.CDLL", missing)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert why_no_gpu() in ("torch sees no CUDA GPU", "this torch was built without CUDA")
    assert "torch" not in sys.modules
