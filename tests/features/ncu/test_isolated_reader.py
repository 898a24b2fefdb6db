"""Reading a report in a separate process, which NVIDIA's library may crash."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

import fake_ncu
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ncu.report_reader import read_report, read_report_isolated

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["launch__registers_per_thread"]


def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put a module before the real ncu_report on the path."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "ncu_report.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_report_is_read_as_in_this_process(tmp_path: Path) -> None:
    pytest.importorskip("ncu_report")
    report = tmp_path / "full.ncu-rep"
    packed = fake_ncu.CAPTURE.parent / "triton_square_gemm_set_full.ncu-rep.gz"
    report.write_bytes(gzip.decompress(packed.read_bytes()))
    kernels = read_report_isolated(report, None)
    # If the process has loaded CUPTI's host library, ncu_report names the unit of derived counts `inst`
    # instead of `thread`.
    here = read_report(report, None)
    assert [replace(kernel, units={}) for kernel in kernels] == [replace(kernel, units={}) for kernel in here]
    assert all(kernel.rules for kernel in kernels)


def test_output_of_the_library_is_not_in_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(
        tmp_path,
        monkeypatch,
        "import os\nos.system('echo hello from a library')\nprint('hello')\nload_report = lambda path: []\n",
    )
    (tmp_path / "x.ncu-rep").touch()
    with pytest.raises(GpuperfError, match=r"x\.ncu-rep holds no kernel"):
        read_report_isolated(tmp_path / "x.ncu-rep", NAMES)


@pytest.mark.parametrize(
    ("end", "status"), [("os.kill(os.getpid(), 11)", -11), ("os._exit(0)", 0), ("raise OSError", 1)]
)
def test_library_that_ends_the_process_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, status: int
) -> None:
    library(tmp_path, monkeypatch, f"import os\n{end}\n")
    with pytest.raises(GpuperfError, match=rf"failed to read x\.ncu-rep \(exit status {status}\)"):
        read_report_isolated(tmp_path / "x.ncu-rep", NAMES)


def test_bytes_that_are_not_text_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(tmp_path, monkeypatch, fake_ncu.LIBRARY.format(values=dict.fromkeys(NAMES, 1.0), unit=None))
    (tmp_path / "x.ncu-rep").touch()
    with pytest.raises(GpuperfError, match=r"failed to read x\.ncu-rep \(exit status \d\)"):
        read_report_isolated(tmp_path / "x.ncu-rep", NAMES)


def test_modules_of_the_working_directory_and_next_to_the_package_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ncu_report")
    (tmp_path / "subprocess.py").write_text("raise SystemExit('not this one')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pytest_gpuperf.__file__", str(tmp_path / "pytest_gpuperf" / "__init__.py"))
    assert read_report_isolated(fake_ncu.report(tmp_path), NAMES)
