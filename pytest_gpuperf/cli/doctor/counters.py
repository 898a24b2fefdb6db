"""Checks for hardware counters: permission, tools and other profilers."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.doctor.check import absent, ok, problem, shown, warning
from pytest_gpuperf.measure.cupti.libcupti import copies_in, package_folders
from pytest_gpuperf.measure.ncu.report_reader import NVIDIA_PACKAGES, ncu_python_dirs

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.cli.doctor.check import CheckResult
    from pytest_gpuperf.cli.doctor.machine import Machine

CAP_SYS_ADMIN = 21
CAP_PERFMON = 38
PERFMON_DRIVER = 565
"""The first driver branch for which CAP_PERFMON is enough."""

ALLOW = (
    "echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | sudo tee /etc/modprobe.d/gpuperf.conf, then "
    "reboot; in a container --cap-add=SYS_ADMIN (see docs/how-to/run_in_ci.md for what each opens)"
)

NCU_NEEDS_CUDA = (((2025, 3), 13), ((2022, 4), 12))
"""CUDA version that the driver must run from this ncu on; otherwise ncu reports an incompatible driver."""
GPU_NEEDS_NCU = {9: (2022, 3), 10: (2025, 1), 12: (2025, 1)}
"""First ncu for each major compute capability (CUDA 11.8 and 12.8)."""

OTHER_PROFILERS = {
    "nv-hostengine": "DCGM",
    "dcgm-exporter": "DCGM",
    "nsys": "Nsight Systems",
    "nsys-launcher": "Nsight Systems",
    "ncu": "Nsight Compute",
}
"""Profilers by the name of their process, as the kernel shortens it."""


def permission(machine: Machine) -> CheckResult:
    """Check that the driver lets this process read the counters."""
    setting = _line(machine.system / "proc/driver/nvidia/params", "RmProfilingAdminOnly")
    if not setting:
        if machine.gpu is None:
            return absent("no GPU")
        return warning("unknown: /proc/driver/nvidia/params does not say", "ncu --query-metrics tries it")
    if setting == "0":
        return ok("every user may read them")
    held = int(_line(machine.system / "proc/self/status", "CapEff") or "0", 16)
    if held >> CAP_SYS_ADMIN & 1:
        return ok("administrators may read them, and this process is one (CAP_SYS_ADMIN)")
    branch = machine.driver.version.partition(".")[0]
    if held >> CAP_PERFMON & 1 and branch.isdigit() and int(branch) >= PERFMON_DRIVER:
        return ok("administrators may read them, and so may this process (CAP_PERFMON)")
    return problem("only administrators may read them: a run times and checks, without counters", ALLOW)


def ncu(machine: Machine) -> CheckResult:
    """Find the ncu of a run, and check that driver and GPU fit it."""
    found = machine.ncu
    if found is None:
        return _no_ncu(machine)
    version = _two(found.version)
    text = f"{found.version}, {shown(found.path)}"
    if version is None:
        return ok(text)
    cuda = next((cuda for first, cuda in NCU_NEEDS_CUDA if version >= first), None)
    if cuda and machine.driver.cuda and machine.driver.cuda[0] < cuda:
        return problem(
            f"{text}: needs a driver that runs CUDA {cuda}, this one runs {machine.driver.cuda[0]}",
            "update the driver, or install an older Nsight Compute and name it with gpuperf_ncu",
        )
    first = GPU_NEEDS_NCU.get(int(machine.gpu.compute_capability.partition(".")[0])) if machine.gpu else None
    if first and version < first:
        wanted = f"{first[0]}.{first[1]}"
        return problem(f"{text}: older than this GPU", f"install Nsight Compute {wanted} or newer")
    return ok(text)


def _no_ncu(machine: Machine) -> CheckResult:
    packages = machine.system / NVIDIA_PACKAGES.relative_to("/")
    installed = sorted(packages.glob("*/ncu"), key=lambda path: _two(path.parent.name) or (0, 0))
    if installed:
        return warning(
            "neither on PATH nor in the CUDA installation: CUDA graphs have no counters",
            f"pytest --gpuperf -o gpuperf_ncu={NVIDIA_PACKAGES / installed[-1].parent.name / 'ncu'}",
        )
    if machine.gpu is None:
        return absent("not found; without a GPU there is nothing to profile")
    return warning(
        "not found: CUDA graphs have no counters",
        "install Nsight Compute: https://developer.nvidia.com/nsight-compute",
    )


def reader(machine: Machine) -> CheckResult:
    """Find the reader for ncu reports."""
    if found := machine.version("ncu-report"):
        return ok(f"ncu-report {found}")
    if machine.ncu is None:
        return absent("needed only with ncu")
    if any((folder / "ncu_report.py").exists() for folder in ncu_python_dirs(machine.ncu.path)):
        return ok("the copy inside the ncu installation")
    return warning(
        "none: counters are read from CSV, rounded to two decimals", "pip install 'pytest-gpuperf[ncu]'"
    )


def cupti(machine: Machine) -> CheckResult:
    """Find NVIDIA's profiling library, for counters and kernel times in the process itself."""
    wheels = [machine.torch.folder.parent / "nvidia"] if machine.torch else []
    for source, path in copies_in(wheels, machine.toolkits, package_folders("triton")):
        return ok(f"{path.name} of {source}")
    if machine.gpu is None:
        return absent("not found; without a GPU there is nothing to profile")
    return warning(
        "not found: neither in torch's wheels nor in the CUDA toolkit", "pip install nvidia-cuda-cupti"
    )


def profilers(machine: Machine) -> CheckResult:
    """Find other profilers that may hold the counters, and settings that make CUPTI hang."""
    if "TEARDOWN_CUPTI" in machine.environ:
        return warning(
            "with TEARDOWN_CUPTI torch.profiler frees the process of CUPTI in a thread of its own: "
            "without another call into CUDA, the process hangs at its end",
            "unset TEARDOWN_CUPTI",
        )
    running = set()
    for comm in (machine.system / "proc").glob("[0-9]*/comm"):
        with suppress(OSError):  # the process has ended
            running.add(OTHER_PROFILERS.get(comm.read_text(errors="replace").strip(), ""))
    running.discard("")
    if not running:
        return ok("none is running here (other containers are hidden)")
    if running == {"DCGM"} and machine.state and machine.state.gpm:
        return ok("DCGM is running, but reads this GPU without the counters")
    fix = "dcgmi profile --pause; after the run: dcgmi profile --resume" if "DCGM" in running else ""
    if running - {"DCGM"}:
        fix = "; ".join(part for part in ("end the other profiler", fix) if part)
    return warning(f"{', '.join(sorted(running))} may hold the counters", fix)


def _line(path: Path, key: str) -> str:
    """Return the value of `key: value` in a file below /proc; empty if it is missing."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    found = re.search(rf"^{key}:\s*(\w+)", text, re.MULTILINE)
    return found[1] if found else ""


def _two(version: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None
