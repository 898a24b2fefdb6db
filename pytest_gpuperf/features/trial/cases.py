"""The cases of a problem: from `task.yml` next to it, or from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gpuperf._version import requirement
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial.record import TrialCase
from pytest_gpuperf.records.files import show_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pytest_gpuperf.features.trial.record import Form

TASK_FILE = "task.yml"


class Task(msgspec.Struct, frozen=True):
    """The keys of a `task.yml` of GPU MODE that matter here; one without a value is null."""

    tests: list[dict[str, Any]] | None = None
    benchmarks: list[dict[str, Any]] | None = None


def read_task(problem: Path) -> Task | None:
    """Read the `task.yml` next to a problem file; None if there is none.

    Raises:
        GpuperfError: The file is broken, or PyYAML is missing.
    """
    path = problem.with_name(TASK_FILE)
    if not path.is_file():
        return None
    shown = show_path(path)
    try:
        return msgspec.yaml.decode(path.read_bytes(), type=Task)
    except ImportError:
        raise GpuperfError(
            f"{shown} names the cases, and PyYAML is not installed",
            next_step=f"type pip install '{requirement('try')}', or name the cases: --case size=1024,seed=1",
        ) from None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise GpuperfError(
            f"{shown} cannot be read: {error}",
            expected="YAML with the lists tests and benchmarks",
            next_step="name the cases: --case size=1024,seed=1",
        ) from None


def cases_of(form: Form, task: Task | None, given: Iterable[str]) -> tuple[TrialCase, ...]:
    """Return the cases of a problem, the checked ones before the timed ones.

    Args:
        form: The form of the problem.
        task: Its `task.yml`.
        given: Cases of the command line, such as `size=1024,seed=1`; they replace those of the task.

    Raises:
        GpuperfError: A case is not of this form.
    """
    chosen = [_parse(text) for text in given]
    if form == "kernelbench":
        if chosen:
            raise GpuperfError(
                "--case was given, and get_inputs of KernelBench takes no arguments",
                next_step="leave --case out",
            )
        return (TrialCase(name=""),)
    if chosen:
        return tuple(_case(arguments) for arguments in chosen)
    tests, timed = (task.tests or [], task.benchmarks or []) if task is not None else ([], [])
    if not (tests or timed):
        return (TrialCase(name=""),)
    checked = [arguments for arguments in tests if arguments not in timed]
    return (
        *(_case(arguments, timed=not timed) for arguments in checked),
        *(_case(arguments) for arguments in timed),
    )


def _case(arguments: Mapping[str, Any], *, timed: bool = True) -> TrialCase:
    name = ", ".join(f"{key}={value}" for key, value in arguments.items())
    return TrialCase(name=name, arguments=dict(arguments), timed=timed)


def _parse(text: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or not key.strip().isidentifier():
            raise GpuperfError(f"--case {text!r}", expected="arguments such as size=1024,seed=1")
        try:
            arguments[key.strip()] = msgspec.json.decode(value.strip())
        except msgspec.DecodeError:
            arguments[key.strip()] = {"True": True, "False": False, "None": None}.get(
                value.strip(), value.strip()
            )
    return arguments
