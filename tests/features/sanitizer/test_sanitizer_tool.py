"""Search and command of compute-sanitizer, and PTX of its marks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import fake_sanitizer
from pytest_gpuperf.features.sanitizer.markers import BODIES, marker_name, marker_ptx
from pytest_gpuperf.features.sanitizer.tool import Sanitizer, environment, find_sanitizer
from pytest_gpuperf.processes.cuda_toolkit import toolkits

LOG = Path("/tmp/50%/sanitizer.log")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Imitate a machine without compute-sanitizer, and return its root."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def test_sanitizer_on_path_is_taken(nowhere: Path) -> None:
    path = fake_sanitizer.install(nowhere / "bin")
    assert find_sanitizer() == Sanitizer(path, "2025.3.1.0")


def test_toolkit_sanitizer_is_the_fallback(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolkit = nowhere / "toolkit"
    (toolkit / "bin").mkdir(parents=True)
    path = fake_sanitizer.install(toolkit / "bin")
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    assert find_sanitizer().path == path


def test_linked_toolkit_first_then_the_newest(nowhere: Path) -> None:
    for name in ("cuda-12.9", "cuda-13.0", "cuda-9.2"):
        (nowhere / name).mkdir()
    found = [toolkit.name for toolkit in toolkits(nowhere)]
    assert found == ["cuda", "cuda-13.0", "cuda-12.9", "cuda-9.2"]


@pytest.mark.parametrize("tool", BODIES)
def test_a_wrong_kernel_ends_alone_and_all_errors_are_printed(tool: str) -> None:
    command = Sanitizer(Path("cs"), "1").command(tool, LOG)
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--tool"] == tool
    assert options["--destroy-on-device-error"] == "kernel"
    assert options["--print-limit"] == "0"
    assert options["--log-file"] == "/tmp/50%%/sanitizer.log"
    assert ("--padding" in options) == (tool == "memcheck")
    assert options.get("--racecheck-report", "") == ("hazard" if tool == "racecheck" else "")


def test_other_variables_are_kept() -> None:
    environ = {"HOME": "/root", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    assert environment(environ, "initcheck") == {
        "HOME": "/root",
        "LC_ALL": "C",
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    }
    assert environment(environ, "synccheck") == {**environ, "LC_ALL": "C"}


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("tool", BODIES)
def test_a_mark_compiles_for_every_gpu(tool: str, architecture: str, tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    ptxas = folder / "ptxas"
    if not ptxas.exists():
        pytest.skip("this triton has no ptxas")
    source = tmp_path / "marker.ptx"
    source.write_text(marker_ptx(tool, marker_name(7)))
    output = tmp_path / "marker.cubin"
    command = [str(ptxas), "-arch", architecture, str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and (folder / "ptxas-blackwell").exists():
        command[0] = str(folder / "ptxas-blackwell")
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert b"gpuperf_marker_7" in output.read_bytes()
