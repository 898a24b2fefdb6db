"""`gpuperf doctor`: show whether this machine is ready to measure."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.cli.project import Project, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.libcupti import TRITON, CuptiError, copies
from pytest_gpuperf.measure.device.conditions import Nvml, driver_version
from pytest_gpuperf.measure.device.driver import (
    CUDA_ERROR_NO_DEVICE,
    CUDA_ERROR_STUB_LIBRARY,
    DriverError,
    library,
)
from pytest_gpuperf.measure.device.gpu_lock import GpuLock
from pytest_gpuperf.measure.ncu.tool import find_ncu
from pytest_gpuperf.records.run import STATIC_SOURCE
from pytest_gpuperf.report.number_format import count
from pytest_gpuperf.report.table import Column, Report, Table
from pytest_gpuperf.settings.ini_file_search import find_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.records import GpuInfo
    from pytest_gpuperf.report.table import Tone

State = Literal["problem", "warning", "ok", "absent"]
"""Part of a run will not work; numbers or convenience suffer; good; not there, not needed or unknown."""
TONES: dict[State, Tone] = {"problem": "bad", "warning": "unsure", "ok": "pass", "absent": "absent"}
NO_GPU = "no GPU"
UPDATE = "pytest --gpuperf --gpuperf-update=new"


class Result(NamedTuple):
    """The result of a check."""

    state: State
    text: str
    fix: str = ""
    """The command or action that fixes it."""


@dataclass(frozen=True)
class Machine:
    """This machine as the checks see it."""

    project: Project
    gpu: GpuInfo | None = None
    """The GPU of a run."""
    why: str = ""
    """The reason why a run has no GPU."""
    driver: str = ""
    """Version of the driver; empty if NVML does not tell."""


def look(project: Project) -> Machine:
    """Find the GPU and the driver."""
    try:
        from pytest_gpuperf.session.live_runner import why_not_live

        if why := why_not_live():
            return Machine(project, None, why, driver_version())
        from pytest_gpuperf.measure.device.gpu_identity import gpu_info

        return Machine(project, gpu_info(), driver=driver_version())
    except Exception as error:  # whatever a broken installation, or a GPU that is in use, raises
        return Machine(project, None, f"torch fails: {error}", driver_version())


def has_device() -> bool:
    """Ask the driver for a device; one that fails for other reasons has one."""
    try:
        return library().cuInit(0) not in (CUDA_ERROR_STUB_LIBRARY, CUDA_ERROR_NO_DEVICE)
    except DriverError:
        return False


def gpu(machine: Machine) -> Result:
    """Check that a run can measure, and name its GPU and driver."""
    if machine.gpu is not None:
        return Result("ok", f"{machine.gpu.name}, driver {machine.driver or 'unknown'}")
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    if (machine.driver or has_device()) and not hidden:
        return Result(
            "problem",
            f"{machine.why}, but there is a driver: nothing can be measured",
            "nvidia-smi, then python -c 'import torch; torch.cuda.init()' say why",
        )
    return Result(
        "warning",
        f"none ({machine.why}): a run can only replay recordings; static checks and reports need none",
        "unset CUDA_VISIBLE_DEVICES" if hidden else "use a machine with one, or replay: pytest --gpuperf",
    )


def clocks(machine: Machine) -> Result:
    """Check that no setting, heat or power limit holds the clocks."""
    nvml = Nvml(machine.gpu.uuid) if machine.gpu else None
    now = nvml.conditions() if nvml else None
    if nvml is None or now is None:
        return Result("absent", "NVML does not say" if machine.gpu else NO_GPU)
    text = f"SM {now.sm_clock_mhz} of {now.max_sm_clock_mhz} MHz"
    if now.throttle_reasons:
        fix = "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; measure while the GPU is idle and cool"
        return Result("warning", f"{text}, held back now: {', '.join(now.throttle_reasons)}", fix)
    if nvml.clocks_are_set:
        return Result(
            "warning",
            f"{text}, set by application or locked clocks: compare only with baselines taken so",
            "sudo nvidia-smi --reset-gpu-clocks; sudo nvidia-smi --reset-applications-clocks",
        )
    return Result("ok", f"{text}; no setting holds them now (one may show only under load)")


def processes(machine: Machine) -> Result:
    """Find other processes that compute on the GPU."""
    now = Nvml(machine.gpu.uuid).conditions() if machine.gpu else None
    if now is None:
        return Result("absent", "NVML does not say" if machine.gpu else NO_GPU)
    if not now.other_processes:
        return Result("ok", "nobody else computes on it (other containers may be hidden)")
    return Result("warning", f"others compute on it: {now.other_processes}", "nvidia-smi; end them")


def lock(machine: Machine) -> Result:
    """Check that no other run has locked the GPU."""
    if machine.gpu is None:
        return Result("absent", NO_GPU)
    try:
        holder = GpuLock(machine.gpu.uuid).holder()
    except GpuperfError as error:
        return Result("warning", f"{error.found}: runs do not wait for each other", error.next_step)
    if holder is None:
        return Result("ok", "free")
    return Result(
        "warning", f"{holder}: the next run waits for it", f"kill {holder.pid}" if holder.pid else ""
    )


def counters(machine: Machine) -> Result:
    """Read a counter of a kernel, as a run does: each GPU, driver and container has rules of its own."""
    if machine.gpu is None:
        return Result("absent", NO_GPU)
    if lock(machine).state != "ok":
        return Result("absent", "not tried: another run may measure now")
    from pytest_gpuperf.features.doctor.counter_access import read_one

    try:
        read_one()
    except CuptiError as error:
        # Without an answer of CUPTI the fault is in the installation, which `cupti` explains.
        return Result(
            "problem" if error.code else "warning", f"{error.found}: a run times and checks", error.next_step
        )
    return Result("ok", "CUPTI reads them")


def ncu(machine: Machine) -> Result:
    """Find the ncu of a run."""
    config = find_config(machine.project.root)
    if found := find_ncu(config.values.get("gpuperf_ncu", "") if config else ""):
        return Result("ok", found.version)
    text, fix = "not found: CUDA graphs have no counters", "install Nsight Compute, or put its ncu on PATH"
    return Result("warning", text, fix) if machine.gpu else Result("absent", "not found")


def cupti(machine: Machine) -> Result:
    """Find NVIDIA's profiling library, which reads counters and kernel times in the process itself."""
    for source, path in copies():
        if source != TRITON:
            return Result("ok", f"{path.name} of {source}")
    if machine.gpu is None:
        return Result("absent", "not found")
    text = "not found: neither next to torch nor in the CUDA toolkit"
    return Result("warning", text, "pip install nvidia-cuda-cupti")


def torch(machine: Machine) -> Result:
    """Find the torch of a run."""
    if found := _installed("torch"):
        return Result("ok", found)
    state: State = "problem" if machine.driver else "warning"
    return Result(state, "not installed: nothing can be measured", "pip install torch")


def triton(machine: Machine) -> Result:
    """Find the Triton that tests of Triton kernels need."""
    del machine
    if found := _installed("triton", "pytorch-triton"):
        return Result("ok", found)
    return Result("absent", "not installed; needed only by tests that use it")


def baselines(machine: Machine) -> Result:
    """Read the baselines for this GPU."""
    store = machine.project.store
    slugs = [slug for slug in store.slugs() if slug != STATIC_SOURCE]
    there = f"for {', '.join(slugs)}" if slugs else "none"
    if machine.gpu is None:
        return Result("ok", there) if slugs else Result("absent", there, UPDATE)
    slug = machine.gpu.slug
    if slug not in slugs:
        others = f" (there are some {there})" if slugs else ""
        return Result("warning", f"none for {slug}{others}", UPDATE)
    loaded = [found for suite in store.suites(slug) if (found := store.load(slug, suite))]
    tests = sum(len(one.tests) for one in loaded)
    return Result("ok", f"{slug}: {count(len(loaded), 'suite')}, {count(tests, 'test')}")


CHECKS = (gpu, clocks, processes, lock, counters, ncu, cupti, torch, triton, baselines)
"""In the order of the page; scripts choose by their names."""


def examine(machine: Machine) -> dict[str, Result]:
    """Run every check; one that raises is a problem too."""
    results = {}
    for check in CHECKS:
        try:
            found = check(machine)
        except GpuperfError as error:
            found = Result("problem", error.found, error.next_step)
        except Exception as error:
            found = Result("problem", f"this check failed: {type(error).__name__}: {error}")
        results[check.__name__] = found._replace(text=without_paths(found.text))
    return results


def without_paths(text: str) -> str:
    """Shorten a message to one line, with `…` for the folders of absolute paths: people paste it."""
    return re.sub(r"(?<![\w.~…])/(?:[^\s/'\"]+/)+", "…/", text.strip().partition("\n")[0])


def _installed(*distributions: str) -> str:
    for name in distributions:
        with suppress(PackageNotFoundError):
            return version(name)
    return ""


@click.command("doctor")
@output_form
@project_options
def command(project: Project, form: str) -> None:
    """Show whether this machine is ready to measure.

    Changes nothing, and measures only a counter of one small kernel. Works without a GPU. Exits with 1 if
    there is a problem; warnings and a missing GPU do not count.
    """
    found = examine(look(project))
    show(_report(found), form)
    if any(result.state == "problem" for result in found.values()):
        raise click.exceptions.Exit(1)


def _report(found: dict[str, Result]) -> Report:
    results: Sequence[Result] = list(found.values())
    states = [result.state for result in results]
    texts = [result.text + (f"\n-> {result.fix}" if result.fix else "") for result in results]
    columns = [
        Column("", list(found), "name", code=True),
        Column("", states, "outcome", left=True, tones=[TONES[state] for state in states]),
        Column("", texts, "prose"),
    ]
    counts = [f"{states.count(state)} {state}" for state in TONES if state in states]
    records = [{"name": name, **result._asdict()} for name, result in found.items()]
    return Report([Table(columns, notes=[", ".join(counts)])], records)
