"""CUDA source: nvcc and NVRTC if installed, and a fake nvcc with the files of a real one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.static import nvcc, nvrtc
from pytest_gpuperf.records import StaticKernel

DATA = Path(__file__).parents[2] / "data" / "static"
SOURCE = (DATA / "spill.cu").read_text()

FAKE_NVCC = """#!{python}
import gzip, pathlib, shutil, sys
if "--version" in sys.argv:
    sys.exit(print("Cuda compilation tools, release 13.0, V13.0.88"))
here, data = pathlib.Path(__file__).parent, pathlib.Path({data!r})
with (here / "calls").open("a") as calls:
    print(*sys.argv[1:], file=calls)
if "-DBROKEN" in sys.argv:
    sys.exit(print("kernel.cu(1): error: this is broken") or 1)
source = pathlib.Path(sys.argv[sys.argv.index("-x") + 2])
folder = pathlib.Path(sys.argv[sys.argv.index("--keep-dir") + 1])
(folder / f"{{source.stem}}.ptx").write_bytes(gzip.decompress((data / "spill.ptx.gz").read_bytes()))
cubin = sys.argv[sys.argv.index("-o") + 1]
pathlib.Path(cubin).write_bytes(gzip.decompress((data / "spill.cubin.gz").read_bytes()))
print((data / "spill.log").read_text(), file=sys.stderr)
"""


@pytest.fixture
def fake_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a fake nvcc that always writes the files in `data/static`, and return its folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "nvcc"
    script.write_text(FAKE_NVCC.format(python=sys.executable, data=str(DATA)))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_kernel_is_read_from_nvcc_output(compiled: Any, fake_nvcc: Path) -> None:
    made = compiled(SOURCE, entry="staged", shared_memory=1024, flags=("-O3",))["sm_90"]
    assert made == StaticKernel(
        code=made.code,
        name="staged",
        arch="sm_90",
        compiler="nvcc 13.0.88",
        block_size=256,
        registers_per_thread=16,
        spills=0,
        stack_bytes=0,
        shared_memory_bytes=4096 + 1024,
        code_bytes=640,
        widest_load_bits=128,
        tensor_instructions=(),
        copy_instructions=(),
        theoretical_occupancy=100.0,
        blocks_per_sm=8,
        occupancy_limiter="warps",
    )
    assert calls(fake_nvcc)[0].startswith("-arch=sm_90 -cubin -Xptxas=-v -O3 ")


def test_unknown_block_size_is_an_error(compiled: Any, fake_nvcc: Path) -> None:
    with pytest.raises(GpuperfError, match=r"block size of .*spilling.* unknown; expected block_size="):
        compiled(SOURCE, entry="spilling")
    made = compiled(SOURCE, entry="spilling", block_size=128)["sm_90"]
    assert (made.block_size, made.spills, made.stack_bytes) == (128, 2932, 1376)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("", r"2 kernels of the source match entry=''; expected exactly one; .*: staged, _Z8spilling"),
        ("no_such", r"no kernels of the source match entry='no_such'; .*: staged, _Z8spilling"),
        ("(", r"entry='\(' is a broken regex"),
    ],
)
def test_exactly_one_kernel_is_chosen(compiled: Any, fake_nvcc: Path, entry: str, said: str) -> None:
    with pytest.raises(GpuperfError, match=said):
        compiled(SOURCE, entry=entry, block_size=64)


def test_file_is_compiled_in_its_folder(compiled: Any, fake_nvcc: Path) -> None:
    assert compiled(DATA / "spill.cu", entry="staged")["sm_90"].name == "staged"
    assert compiled(str(DATA / "spill.cu"), entry="staged", flags=("-O1",))["sm_90"].name == "staged"
    assert all(str(DATA / "spill.cu") in call for call in calls(fake_nvcc))


def test_nvcc_error_is_shown(compiled: Any, fake_nvcc: Path) -> None:
    with pytest.raises(GpuperfError, match=r"nvcc does not compile the source for sm_90: .*this is broken"):
        compiled(SOURCE, entry="staged", flags=("-DBROKEN",))


@pytest.mark.parametrize(
    ("source", "given", "said"),
    [
        ("no_such_file.cu", {}, "no_such_file.cu cannot be read: No such file"),
        (SOURCE, {"archs": ("sm_91",)}, "occupancy table does not have"),
        (SOURCE, {"signature": {"x": "*fp32"}}, "signature= for CUDA source; expected keyword arguments"),
        (SOURCE, {"num_warps": 4}, "num_warps= for CUDA source; expected .*entry, block_size"),
    ],
)
def test_bad_input_is_one_clear_error(
    compiled: Any, fake_nvcc: Path, source: str, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(GpuperfError, match=said):
        compiled(source, **given)
    assert calls(fake_nvcc) == []


def test_broken_nvcc_is_not_found(fake_nvcc: Path) -> None:
    (fake_nvcc / "nvcc").write_text("#!/bin/sh\nexit 1\n")
    assert nvcc.find() is None


def test_nvrtc_gives_the_same_kernel(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if nvrtc.find() is None:
        pytest.skip("no NVRTC on this machine (pip install nvidia-cuda-nvrtc)")
    monkeypatch.setattr(nvcc, "find", lambda: None)
    made = compiled(SOURCE, ("sm_90", "sm_120"), entry="staged")
    assert made.keys() == {"sm_90", "sm_120"}
    assert made["sm_90"].compiler.startswith("nvrtc ")
    assert (made["sm_90"].block_size, made["sm_90"].shared_memory_bytes) == (256, 4096)
    assert made["sm_90"].code_bytes > 0
    with pytest.raises(GpuperfError, match=r"NVRTC does not compile the source for sm_90: .*nothing"):
        compiled("__global__ void k() { nothing(); }", block_size=32)
