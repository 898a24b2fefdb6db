"""Checks for the tools that kernels are written and compiled with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.doctor.check import absent, ok, problem, shown, warning

if TYPE_CHECKING:
    from pytest_gpuperf.cli.doctor.check import CheckResult
    from pytest_gpuperf.cli.doctor.machine import Machine


def torch(machine: Machine) -> CheckResult:
    """Find the torch of a run."""
    found = machine.torch
    if found is None:
        text = "not installed: nothing can be measured, and tests that use it cannot run"
        fix = "pip install torch"
        return problem(text, fix) if machine.has_device else warning(text, fix)
    return ok(f"{found.version}, built {f'for CUDA {found.cuda}' if found.cuda else 'without CUDA'}")


def triton(machine: Machine) -> CheckResult:
    """Find the Triton that tests of Triton kernels need."""
    found = machine.version("triton", "pytorch-triton")
    return ok(found) if found else absent("not installed; needed only by tests that use it")


def nvcc(machine: Machine) -> CheckResult:
    """Find the compiler for CUDA C++ in tests (`load_inline`)."""
    path = machine.tool("nvcc")
    if path is None:
        return absent("not found; needed only by tests that compile CUDA C++")
    release = re.search(r"release (\d+)\.(\d+)", machine.ask(path, "--version"))
    if release is None:
        return warning(f"{shown(path)} does not say its version", "reinstall the CUDA toolkit")
    text = f"{release[1]}.{release[2]}, {shown(path)}"
    built_for = machine.torch.cuda if machine.torch else ""
    if built_for and built_for.partition(".")[0] != release[1]:
        return warning(
            f"{text}: torch is built for CUDA {built_for}, and load_inline refuses another major version",
            f"install the CUDA {built_for} toolkit and set CUDA_HOME to it",
        )
    return ok(text)


def sanitizer(machine: Machine) -> CheckResult:
    """Find the tool that detects wrong accesses and races."""
    path = machine.tool("compute-sanitizer")
    if path is None:
        return absent("not found; needed only by --gpuperf-sanitize")
    return ok(shown(path))
