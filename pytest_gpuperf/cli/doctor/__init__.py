"""`gpuperf doctor`: the checks of this machine, and the commands that fix problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.cli.doctor import counters, gpu, plugins, project, toolchain
from pytest_gpuperf.cli.doctor.check import Check, State, absent, problem, without_paths
from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.cli.doctor.check import CheckResult
    from pytest_gpuperf.cli.doctor.machine import Machine
    from pytest_gpuperf.cli.doctor.nvml import GpuState

    Probe = Callable[[Machine], CheckResult]

__all__ = ["Check", "State", "examine"]


def _of_state(check: Callable[[GpuState], CheckResult]) -> Probe:
    """Turn a check of the GPU's state into a check of a machine, which may have no GPU or no NVML."""

    def probe(machine: Machine) -> CheckResult:
        if machine.state is not None:
            return check(machine.state)
        if machine.gpu is None:
            return absent("no GPU")
        return absent(f"NVML does not say: {machine.driver.error or 'it does not know this GPU'}")

    return probe


PROBES: Mapping[str, Mapping[str, Probe]] = {
    "GPU": {
        "gpu": gpu.gpu,
        "driver": gpu.driver,
        "persistence": _of_state(gpu.persistence),
        "clocks": _of_state(gpu.clocks),
        "throttling": _of_state(gpu.throttling),
        "power": _of_state(gpu.power),
        "ecc": _of_state(gpu.ecc),
        "mig": _of_state(gpu.mig),
        "processes": _of_state(gpu.processes),
        "lock": gpu.lock,
    },
    "counters": {
        "permission": counters.permission,
        "ncu": counters.ncu,
        "reader": counters.reader,
        "cupti": counters.cupti,
        "profilers": counters.profilers,
    },
    "toolchain": {
        "torch": toolchain.torch,
        "triton": toolchain.triton,
        "nvcc": toolchain.nvcc,
        "compute-sanitizer": toolchain.sanitizer,
        "triton-cache": project.triton_cache,
        "inductor-cache": project.inductor_cache,
    },
    "project": {
        "plugins": plugins.plugins,
        "disk": project.disk,
        "baselines": project.baselines,
        "recordings": project.recordings,
    },
}
"""The checks by theme and name, in the order of the page."""


def examine(machine: Machine) -> list[Check]:
    """Run every check; a check that raises is a problem too."""
    checks = []
    for theme, probes in PROBES.items():
        for name, probe in probes.items():
            found = _guarded(probe, machine)
            checks.append(Check(theme, name, found.state, found.text, found.fix))
    return checks


def _guarded(probe: Probe, machine: Machine) -> CheckResult:
    try:
        return probe(machine)
    except GpuperfError as error:
        expected = f"; expected {error.expected}" if error.expected else ""
        return problem(without_paths(f"{error.found}{expected}"), error.next_step)
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error)
        return problem(f"this check failed: {type(error).__name__}: {without_paths(reason)}")
