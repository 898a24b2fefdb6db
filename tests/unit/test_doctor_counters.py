"""`gpuperf doctor`: checks of hardware counters and the toolchain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import fake_ncu
from doctor_builders import H200, STATE, machine, said, shadow, system_file, without_gpu
from pytest_gpuperf.cli.doctor import counters, toolchain
from pytest_gpuperf.cli.doctor.machine import Machine, Torch
from pytest_gpuperf.cli.doctor.nvml import Driver
from pytest_gpuperf.measure.ncu.tool import Ncu

NOBODY = "0000000000000000"
SYS_ADMIN = "0000000000200000"
PERFMON = "0000004000000000"
DENIED = (
    "problem",
    "only administrators may read them: a run times and checks, without counters",
    counters.ALLOW,
)


def driver_with(folder: Path, admin_only: str, capabilities: str, version: str = "580.159.04") -> Machine:
    system_file(
        folder,
        "proc/driver/nvidia/params",
        f"ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {admin_only}\n",
    )
    system_file(folder, "proc/self/status", f"Name:\tpython\nCapEff:\t{capabilities}\nCapBnd:\t{NOBODY}\n")
    return machine(folder, driver=Driver(version, (13, 0), 1))


@pytest.mark.parametrize(
    ("admin_only", "capabilities", "version", "expected"),
    [
        ("0", NOBODY, "580.159.04", ("ok", "every user may read them", "")),
        ("1", NOBODY, "580.159.04", DENIED),
        (
            "1",
            SYS_ADMIN,
            "580.159.04",
            ("ok", "administrators may read them, and this process is one (CAP_SYS_ADMIN)", ""),
        ),
        (
            "1",
            PERFMON,
            "565.57.01",
            ("ok", "administrators may read them, and so may this process (CAP_PERFMON)", ""),
        ),
        ("1", PERFMON, "550.54.15", DENIED),
    ],
)
def test_permission_depends_on_driver_and_capabilities(
    tmp_path: Path, admin_only: str, capabilities: str, version: str, expected: tuple[str, str, str]
) -> None:
    assert said(counters.permission(driver_with(tmp_path, admin_only, capabilities, version))) == expected


def test_unknown_permission_is_a_warning(tmp_path: Path) -> None:
    assert said(counters.permission(machine(tmp_path))) == (
        "warning",
        "unknown: /proc/driver/nvidia/params does not say",
        "ncu --query-metrics tries it",
    )


def test_permission_is_absent_without_a_gpu(tmp_path: Path) -> None:
    assert said(counters.permission(without_gpu(tmp_path))) == ("absent", "no GPU", "")


@pytest.mark.parametrize(
    ("version", "cuda", "capability", "state", "more"),
    [
        ("2025.3.1.0", (13, 0), "9.0", "ok", ""),
        ("2024.1.0.0", (13, 0), "9.0", "ok", ""),
        (
            "2025.3.1.0",
            (12, 8),
            "9.0",
            "problem",
            ": needs a driver that runs CUDA 13, this one runs 12",
        ),
        ("2025.2.1.0", (12, 8), "9.0", "ok", ""),
        ("2022.4.1.0", (11, 8), "8.0", "problem", ": needs a driver that runs CUDA 12, this one runs 11"),
        ("2024.3.2.0", (13, 0), "12.0", "problem", ": older than this GPU"),
        ("2022.1.0.0", (12, 0), "9.0", "problem", ": older than this GPU"),
        ("2022.1.0.0", (12, 0), "8.0", "ok", ""),
    ],
)
def test_ncu_must_fit_driver_and_gpu(
    tmp_path: Path, version: str, cuda: tuple[int, int], capability: str, state: str, more: str
) -> None:
    found = counters.ncu(
        machine(
            tmp_path,
            gpu=msgspec.structs.replace(H200, compute_capability=capability),
            driver=Driver("1", cuda, 1),
            ncu=Ncu(Path("/usr/local/cuda/bin/ncu"), version),
        )
    )
    assert found.text == f"{version}, /usr/local/cuda/bin/ncu{more}"
    assert found.state.value == state
    assert bool(found.fix) == (state == "problem")


def test_old_ncu_names_the_version_to_install(tmp_path: Path) -> None:
    old = Ncu(Path("/usr/bin/ncu"), "2024.3.2.0")
    blackwell = machine(tmp_path, gpu=msgspec.structs.replace(H200, compute_capability="10.0"), ncu=old)
    assert counters.ncu(blackwell).fix == "install Nsight Compute 2025.1 or newer"


def test_ncu_outside_of_path_is_named(tmp_path: Path) -> None:
    for version in ("2024.3.2", "2025.3.1", "2025.10.0"):
        system_file(tmp_path, f"opt/nvidia/nsight-compute/{version}/ncu")
    assert said(counters.ncu(machine(tmp_path, ncu=None))) == (
        "warning",
        "neither on PATH nor in the CUDA installation: CUDA graphs have no counters",
        "pytest --gpuperf -o gpuperf_ncu=/opt/nvidia/nsight-compute/2025.10.0/ncu",
    )


def test_missing_ncu_is_a_warning_only_with_a_gpu(tmp_path: Path) -> None:
    assert said(counters.ncu(machine(tmp_path, ncu=None))) == (
        "warning",
        "not found: CUDA graphs have no counters",
        "install Nsight Compute: https://developer.nvidia.com/nsight-compute",
    )
    text = "not found; without a GPU there is nothing to profile"
    assert said(counters.ncu(without_gpu(tmp_path))) == ("absent", text, "")


def test_report_reader_is_the_package_or_the_copy_in_ncu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = machine(tmp_path, ncu=Ncu(tmp_path / "nsight" / "ncu", "2025.3.1.0"))
    monkeypatch.setattr(Machine, "version", lambda *_: "2026.3.1")
    assert said(counters.reader(here)) == ("ok", "ncu-report 2026.3.1", "")
    monkeypatch.setattr(Machine, "version", lambda *_: "")
    monkeypatch.setattr("pytest_gpuperf.measure.ncu.report_reader.NVIDIA_PACKAGES", tmp_path / "none")
    assert said(counters.reader(here)) == (
        "warning",
        "none: counters are read from CSV, rounded to two decimals",
        "pip install 'pytest-gpuperf[ncu]'",
    )
    own = tmp_path / "nsight" / "extras" / "python" / "ncu_report.py"
    own.parent.mkdir(parents=True)
    own.write_text("")
    assert said(counters.reader(here)) == ("ok", "the copy inside the ncu installation", "")
    assert said(counters.reader(without_gpu(tmp_path))) == ("absent", "needed only with ncu", "")


def test_cupti_is_found_in_wheels_and_toolkits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    torch = Torch("2.11.0+cu130", "13.0", tmp_path / "site" / "torch")
    assert said(counters.cupti(machine(tmp_path, torch=torch))) == (
        "warning",
        "not found: neither in torch's wheels nor in the CUDA toolkit",
        "pip install nvidia-cuda-cupti",
    )
    system_file(tmp_path, "usr/local/cuda/extras/CUPTI/lib64/libcupti.so.12")
    found = counters.cupti(machine(tmp_path, torch=torch))
    assert said(found) == ("ok", "libcupti.so.12 of the CUDA toolkit", "")
    wheel = tmp_path / "site" / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
    wheel.parent.mkdir(parents=True)
    wheel.write_text("")
    found = counters.cupti(machine(tmp_path, torch=torch))
    assert said(found) == ("ok", "libcupti.so.13 of torch's CUDA wheels", "")


def test_missing_cupti_is_absent_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    text = "not found; without a GPU there is nothing to profile"
    assert said(counters.cupti(without_gpu(tmp_path, torch=None))) == ("absent", text, "")


PAUSE = "dcgmi profile --pause; after the run: dcgmi profile --resume"


@pytest.mark.parametrize(
    ("running", "gpm", "expected"),
    [
        (["python"], False, ("ok", "none is running here (other containers are hidden)", "")),
        (["nv-hostengine"], False, ("warning", "DCGM may hold the counters", PAUSE)),
        (["nv-hostengine"], True, ("ok", "DCGM is running, but reads this GPU without the counters", "")),
        (
            ["nsys-launcher"],
            True,
            ("warning", "Nsight Systems may hold the counters", "end the other profiler"),
        ),
        (
            ["ncu", "dcgm-exporter"],
            True,
            ("warning", "DCGM, Nsight Compute may hold the counters", f"end the other profiler; {PAUSE}"),
        ),
    ],
)
def test_other_profilers_are_named(
    tmp_path: Path, running: list[str], gpm: bool, expected: tuple[str, str, str]
) -> None:
    for pid, name in enumerate(running):
        system_file(tmp_path, f"proc/{pid}/comm", f"{name}\n")
    assert said(counters.profilers(machine(tmp_path, state=replace(STATE, gpm=gpm)))) == expected


def test_teardown_that_hangs_is_a_warning(tmp_path: Path) -> None:
    state, text, fix = said(counters.profilers(machine(tmp_path, environ={"TEARDOWN_CUPTI": "1"})))
    assert (state, fix) == ("warning", "unset TEARDOWN_CUPTI")
    assert "hangs at its end" in text


def test_missing_torch_is_a_problem_only_with_a_gpu(tmp_path: Path) -> None:
    text = "not installed: nothing can be measured, and tests that use it cannot run"
    missing = machine(tmp_path, gpu=None, torch=None)
    assert said(toolchain.torch(missing)) == ("problem", text, "pip install torch")
    assert said(toolchain.torch(without_gpu(tmp_path, torch=None))) == ("warning", text, "pip install torch")


def test_versions_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = machine(tmp_path)
    assert said(toolchain.torch(here)) == ("ok", "2.11.0+cu130, built for CUDA 13.0", "")
    cpu = machine(tmp_path, torch=Torch("2.13.0+cpu", "", tmp_path))
    assert said(toolchain.torch(cpu)) == ("ok", "2.13.0+cpu, built without CUDA", "")
    monkeypatch.setattr(Machine, "version", lambda _, *names: {"triton": "3.6.0"}[names[0]])
    assert said(toolchain.triton(here)) == ("ok", "3.6.0", "")


def test_optional_tool_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "version", lambda *_: "")
    here = machine(tmp_path)
    assert said(toolchain.triton(here)) == ("absent", "not installed; needed only by tests that use it", "")
    assert said(toolchain.nvcc(here)) == (
        "absent",
        "not found; needed only by tests that compile CUDA C++",
        "",
    )
    assert said(toolchain.sanitizer(here)) == (
        "absent",
        "not found; needed only by --gpuperf-sanitize",
        "",
    )


@pytest.mark.parametrize(
    ("release", "state", "more"),
    [
        ("13.2", "ok", ""),
        (
            "12.8",
            "warning",
            ": torch is built for CUDA 13.0, and load_inline refuses another major version",
        ),
    ],
)
def test_nvcc_must_fit_torch(tmp_path: Path, release: str, state: str, more: str) -> None:
    shadow(tmp_path / "bin" / "nvcc", f"Cuda compilation tools, release {release}, V{release}.88")
    found = toolchain.nvcc(machine(tmp_path, environ={"PATH": str(tmp_path / "bin")}))
    assert (found.state.value, found.text) == (state, f"{release}, …/nvcc{more}")
    assert found.fix == ("install the CUDA 13.0 toolkit and set CUDA_HOME to it" if more else "")


def test_tool_is_found_in_the_toolkit_too(tmp_path: Path) -> None:
    shadow(tmp_path / "toolkit" / "bin" / "compute-sanitizer", "")
    here = machine(tmp_path, environ={"CUDA_HOME": str(tmp_path / "toolkit")})
    assert said(toolchain.sanitizer(here)) == ("ok", "…/compute-sanitizer", "")


def test_nvcc_without_a_version_is_a_warning(tmp_path: Path) -> None:
    shadow(tmp_path / "bin" / "nvcc", "nonsense")
    found = toolchain.nvcc(machine(tmp_path, environ={"PATH": str(tmp_path / "bin")}))
    assert said(found) == ("warning", "…/nvcc does not say its version", "reinstall the CUDA toolkit")


def test_configured_ncu_is_checked(tmp_path: Path) -> None:
    here = machine(tmp_path, ini={"gpuperf_ncu": str(fake_ncu.install(tmp_path))})
    del vars(here)["ncu"]
    assert here.ncu == Ncu(tmp_path / "ncu", "2025.3.1.0")
