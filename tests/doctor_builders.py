"""Fake machines for the tests of `gpuperf doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.doctor.machine import Machine, Torch
from pytest_gpuperf.cli.doctor.nvml import Driver, GpuState
from pytest_gpuperf.cli.project import Project
from pytest_gpuperf.measure.ncu.tool import Ncu
from pytest_gpuperf.records import GpuInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.cli.doctor.check import CheckResult

UUID = "GPU-c4101d6e-0f0c-4b6e-9c3e-000000000001"
H200 = GpuInfo(
    name="NVIDIA H200",
    slug="nvidia-h200",
    uuid=UUID,
    compute_capability="9.0",
    multiprocessors=132,
    memory_bytes=150 * 10**9,
)
STATE = GpuState(
    uuid=UUID,
    persistence=True,
    sm_mhz=345,
    most_sm_mhz=1980,
    memory_mhz=3201,
    event_bits=0x1,
    temperature_c=31,
    slowdown_c=87,
    power_mw=77_100,
    limit_mw=700_000,
    default_limit_mw=700_000,
    ecc=(True, True),
    mig=False,
    pids=(),
    gpm=True,
)
"""An idle H200."""
DRIVER = Driver("580.159.04", (13, 0), 1)
TORCH = Torch("2.11.0+cu130", "13.0", Path("/site/torch"))
NCU = Ncu(Path("/usr/local/cuda/bin/ncu"), "2025.3.1.0")


def machine(
    folder: Path,
    *,
    gpu: GpuInfo | None = H200,
    no_gpu: str = "",
    state: GpuState | None = STATE,
    driver: Driver = DRIVER,
    torch: Torch | None = TORCH,
    ncu: Ncu | None = NCU,
    ini: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Machine:
    """Return a machine with its system and project below `folder`; by default with an H200."""
    made = Machine(
        Project(folder / "project", folder / "project" / "baselines", 5.0),
        system=folder / "system",
        environ=environ or {},
    )
    if gpu is None:
        no_gpu, state = no_gpu or "there is no NVIDIA GPU", None if state is STATE else state
    known = {
        "gpu": gpu,
        "no_gpu": no_gpu,
        "state": state,
        "driver": driver,
        "torch": torch,
        "ncu": ncu,
        "ini": ini or {},
    }
    vars(made).update(known)
    return made


def without_gpu(folder: Path, **known: object) -> Machine:
    """Return a machine without a GPU and a driver."""
    driver = Driver(error="NVML Shared Library Not Found")
    return machine(folder, **{"gpu": None, "driver": driver, "ncu": None, **known})  # type: ignore[arg-type]


def system_file(folder: Path, path: str, text: str = "") -> Path:
    """Write a file below the root of the machine's system."""
    made = folder / "system" / path
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text(text)
    return made


def said(finding: CheckResult) -> tuple[str, str, str]:
    """Return state, text and fix, to compare."""
    return finding.state.value, finding.text, finding.fix


def shadow(path: Path, output: str) -> None:
    """Write a program that prints a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
