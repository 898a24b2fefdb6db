"""Check for other pytest plugins that would disturb a measurement."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.doctor.check import CheckResult, State, absent, ok

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.cli.doctor.machine import Machine


OFF = ("", "0", "no")


@dataclass(frozen=True)
class Disturber:
    """A plugin that disturbs measurements while it is active."""

    name: str
    """Name of its distribution."""
    entry: str
    """Its name for `-p no:…`."""
    why: str
    fix: str
    """Arguments to add to `pytest --gpuperf`."""
    options: Sequence[str] = ()
    """Options that activate it; without any, it is always active."""
    ini: str = ""
    """Configuration key that activates it too."""
    harmless: Sequence[str] = OFF
    """Values of the options that disturb nothing."""
    refused: bool = False
    """True if nothing can be measured while it is active."""


DISTURBERS = (
    Disturber(
        "pytest-xdist",
        "xdist",
        "shares the tests among processes, which --gpuperf refuses",
        "-n 0",
        ("-n", "--numprocesses", "--dist", "-d", "--tx"),
        harmless=(*OFF, "1"),
        refused=True,
    ),
    Disturber(
        "pytest-forked",
        "pytest_forked",
        "forks a process for each test, in which CUDA cannot start again",
        "-p no:pytest_forked",
        ("--forked",),
        refused=True,
    ),
    Disturber(
        "pytest-randomly",
        "randomly",
        "shuffles the tests: another heat and other caches before each",
        "-p no:randomly",
    ),
    Disturber(
        "pytest-random-order",
        "random_order",
        "shuffles the tests: another heat and other caches before each",
        "-p no:random_order",
        ("--random-order", "--random-order-bucket", "--random-order-seed"),
    ),
    Disturber("pytest-cov", "pytest_cov", "traces Python, which slows launches", "--no-cov", ("--cov",)),
    Disturber(
        "pytest-timeout",
        "timeout",
        "ends a test by a signal in the middle of a measurement; under ncu tests take longer",
        "--timeout=0",
        ("--timeout",),
        "timeout",
    ),
    Disturber(
        "pytest-rerunfailures",
        "rerunfailures",
        "runs a test that got slower until it passes",
        "--reruns=0",
        ("--reruns",),
        "reruns",
    ),
)


def plugins(machine: Machine) -> CheckResult:
    """Find installed plugins that would disturb a run, without running pytest."""
    installed = {entry.name for entry in entry_points(group="pytest11")}
    if machine.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        return absent("PYTEST_DISABLE_PLUGIN_AUTOLOAD is set: only named plugins are loaded")
    arguments = shlex.split(f"{machine.ini.get('addopts', '')} {machine.environ.get('PYTEST_ADDOPTS', '')}")
    found = [
        disturber
        for disturber in DISTURBERS
        if disturber.entry in installed and _is_active(disturber, arguments, machine.ini)
    ]
    if not found:
        return ok(f"none of the {len(installed)} installed would disturb a run")
    text = "; ".join(f"{disturber.name} {disturber.why}" for disturber in found)
    state = State.PROBLEM if any(disturber.refused for disturber in found) else State.WARNING
    return CheckResult(state, text, f"pytest --gpuperf {' '.join(disturber.fix for disturber in found)}")


def _is_active(disturber: Disturber, arguments: Sequence[str], ini: Mapping[str, str]) -> bool:
    blocked = f"no:{disturber.entry}"
    if {blocked, f"-p{blocked}", disturber.fix}.intersection(arguments):
        return False
    if not disturber.options:
        return True
    values = [ini.get(disturber.ini, ""), *(_last(option, arguments) for option in disturber.options)]
    return any(value not in disturber.harmless for value in values)


def _last(option: str, arguments: Sequence[str]) -> str:
    """Return the last value of an option: empty if it is not given, `on` if it has no value."""
    for one, following in reversed(list(zip(arguments, [*arguments, ""][1:], strict=True))):
        if one == option:
            return following if following and not following.startswith("-") else "on"
        if one.startswith(f"{option}="):
            return one.partition("=")[2]
        if len(option) == 2 and one.startswith(option):
            return one[2:]
    return ""
