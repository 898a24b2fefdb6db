"""Checks of the GPU, its driver and the state that it is in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.doctor.check import absent, ok, problem, warning
from pytest_gpuperf.cli.doctor.nvml import LIMITED_BY_SETTING
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.conditions import THROTTLE_REASONS
from pytest_gpuperf.measure.device.lock import GpuLock

if TYPE_CHECKING:
    from pytest_gpuperf.cli.doctor.check import CheckResult
    from pytest_gpuperf.cli.doctor.machine import Machine
    from pytest_gpuperf.cli.doctor.nvml import GpuState

WITHOUT_GPU = "a run replays the newest recording; static checks, reports and baselines need none"
NEAR_SLOWDOWN_C = 5


def gpu(machine: Machine) -> CheckResult:
    """Check that a run can measure, and name its GPU."""
    driver = machine.driver
    if info := machine.gpu:
        several = f", one of {driver.gpus}" if driver.gpus > 1 else ""
        return ok(
            f"{info.name}, compute capability {info.compute_capability}, {info.multiprocessors} SMs, "
            f"{info.memory_bytes / 2**30:.0f} GiB, {info.uuid[:8]}…{several}"
        )
    hidden = machine.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden in ("", "-1") and machine.has_device:
        return warning(
            f"CUDA_VISIBLE_DEVICES={hidden} hides every GPU: {WITHOUT_GPU}", "unset CUDA_VISIBLE_DEVICES"
        )
    if driver.gpus:
        count = "one GPU" if driver.gpus == 1 else f"{driver.gpus} GPUs"
        fix = "install a torch with CUDA: https://pytorch.org/get-started/locally"
        if machine.torch and machine.torch.cuda:
            fix = "python -c 'import torch; torch.cuda.init()' says why"
        return problem(f"{machine.no_gpu}, but the driver has {count}: nothing can be measured", fix)
    return warning(
        f"none ({machine.no_gpu}): {WITHOUT_GPU}", "use a machine with one, or replay: pytest --gpuperf"
    )


def driver(machine: Machine) -> CheckResult:
    """Check that the driver runs the CUDA that torch was built for."""
    found = machine.driver
    if found.error:
        if not machine.has_device:
            return absent(f"none ({found.error})")
        return problem(
            f"it does not answer ({found.error})", "nvidia-smi; after an update of the driver, reboot"
        )
    torch = machine.torch
    if found.cuda is None or torch is None or not torch.cuda:
        return ok(found.version + (f", runs CUDA {_dotted(found.cuda)}" if found.cuda else ""))
    text = f"{found.version}, runs CUDA {_dotted(found.cuda)}; torch is built for {torch.cuda}"
    # If a run can measure anyway, one of NVIDIA's compatibility packages is in use.
    if int(torch.cuda.partition(".")[0]) > found.cuda[0] and machine.gpu is None:
        fix = f"update the driver, or install a torch for CUDA {found.cuda[0]}"
        return problem(text, f"{fix}: https://pytorch.org/get-started/locally")
    return ok(text)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def persistence(state: GpuState) -> CheckResult:
    """Check that the driver stays loaded between two runs."""
    if state.persistence is None:
        return absent("the driver does not say")
    if state.persistence:
        return ok("on")
    return warning(
        "off: the driver unloads between runs, so each starts slowly and clock settings are lost",
        "sudo nvidia-smi -pm 1",
    )


def clocks(state: GpuState) -> CheckResult:
    """Show the clocks, and check that no setting holds them."""
    if state.sm_mhz is None:
        return absent("the driver does not say")
    most = f" of {state.most_sm_mhz}" if state.most_sm_mhz else ""
    memory = f", memory {state.memory_mhz} MHz" if state.memory_mhz else ""
    text = f"SM {state.sm_mhz}{most} MHz{memory}"
    default = state.default_application_mhz
    if state.application_mhz and default and state.application_mhz != default:
        text += f"; application clocks set to {state.application_mhz} MHz"
    elif state.event_bits is not None and state.event_bits & LIMITED_BY_SETTING:
        text += "; held there by application or locked clocks"
    else:
        return ok(f"{text}; no setting holds them now (one may show only under load)")
    return warning(
        f"{text}: compare only with baselines taken so",
        "sudo nvidia-smi --reset-gpu-clocks; sudo nvidia-smi --reset-applications-clocks",
    )


def throttling(state: GpuState) -> CheckResult:
    """Check that nothing throttles the clocks now."""
    if state.event_bits is None:
        return absent("the driver does not say")
    reasons = [name for name, bit in THROTTLE_REASONS.items() if state.event_bits & bit]
    if not reasons:
        return ok("nothing holds the clocks back now")
    return warning(
        f"the clocks are held back now: {', '.join(reasons)}",
        "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; measure while the GPU is idle and cool",
    )


def power(state: GpuState) -> CheckResult:
    """Compare temperature and power with their limits."""
    parts = []
    if state.temperature_c is not None:
        parts.append(f"{state.temperature_c} °C")
    if state.power_mw is not None:
        limit = f" of {state.limit_mw / 1e3:.0f} W" if state.limit_mw else " W"
        parts.append(f"{state.power_mw / 1e3:.0f}{limit}")
    text = ", ".join(parts)
    if state.limit_mw and state.default_limit_mw and state.limit_mw < state.default_limit_mw:
        default = f"{state.default_limit_mw / 1e3:.0f}"
        return warning(
            f"{text}; the limit is below its default of {default} W: heavy kernels run at lower clocks",
            f"sudo nvidia-smi --power-limit={default}",
        )
    if state.temperature_c and state.slowdown_c and state.temperature_c > state.slowdown_c - NEAR_SLOWDOWN_C:
        return warning(f"{text}; clocks go down at {state.slowdown_c} °C", "let it cool, look at its fans")
    return ok(text) if text else absent("the driver does not say")


def ecc(state: GpuState) -> CheckResult:
    """Show error correction, which costs some GPUs memory bandwidth."""
    if state.ecc is None:
        return absent("this GPU has none")
    now, pending = state.ecc
    words = ("off", "on")
    if now != pending:
        return warning(f"{words[now]}, {words[pending]} after the next reset", "sudo nvidia-smi --gpu-reset")
    return ok(f"{words[now]}; compare only with baselines taken so")


def mig(state: GpuState) -> CheckResult:
    """Check whether the GPU is cut into slices, and which counters of one ncu can read."""
    if state.mig is None:
        return absent("this GPU has none")
    if not state.mig:
        return ok("off")
    if not state.uuid.startswith("MIG"):
        return problem(
            "on, but no slice of the GPU is in use: CUDA sees only slices",
            "sudo nvidia-smi mig -cgi 0 -C; or without MIG: sudo nvidia-smi -mig 0",
        )
    if state.slices is None:
        return ok(f"on, {state.uuid[:8]}…")
    whole, own = state.slices
    text = f"on, {state.uuid[:8]}… is a compute instance of {own} of the {whole} slices of its GPU instance"
    if own == whole:
        return ok(f"{text}: ncu reads all of its counters")
    # CUPTI's documentation, Special Configurations.
    return warning(
        f"{text}: ncu reads those of its own SMs, not those of the shared L2 and memory",
        "sudo nvidia-smi mig -dci; sudo nvidia-smi mig -cci (one as large as its GPU instance)",
    )


def processes(state: GpuState) -> CheckResult:
    """Find other processes that compute on the GPU."""
    if state.pids is None:
        return absent("the driver does not say")
    others = [str(pid) for pid in state.pids if pid != os.getpid()]
    if not others:
        return ok("nobody else computes on it (other containers may be hidden)")
    what = "another process computes" if len(others) == 1 else f"{len(others)} other processes compute"
    return warning(
        f"{what} on it: {', '.join(others)} (in a container, as the host counts)", "nvidia-smi; end them"
    )


def lock(machine: Machine) -> CheckResult:
    """Check that no other run has locked the GPU."""
    if machine.gpu is None:
        return absent("no GPU")
    try:
        holder = GpuLock(machine.gpu.uuid).holder()
    except GpuperfError as error:
        return warning(f"{error.found}: runs do not wait for each other", error.next_step)
    if holder is None:
        return ok("free")
    return warning(f"{holder}: the next run waits for it", f"kill {holder.pid}" if holder.pid else "")
