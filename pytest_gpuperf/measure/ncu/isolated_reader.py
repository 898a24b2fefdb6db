"""Read a report in a process of its own, where NVIDIA's library can neither disturb torch nor end the run.

`ncu_report` 2025.3.1 was seen to crash in a process that has torch loaded, and damaged reports end any
process that reads them.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.ncu_report_reader import read_report
from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
from pytest_gpuperf.processes.isolation import ask_apart, serve

if TYPE_CHECKING:
    from collections.abc import Sequence


class Request(msgspec.Struct, frozen=True):
    """What the reading process is to do."""

    report: str
    names: list[str] | None
    search: list[str]
    rules: bool


class Answer(msgspec.Struct, frozen=True):
    """What it says."""

    kernels: list[RawKernel] = []
    error: str = ""


def read_report_isolated(
    path: Path, names: Sequence[str] | None, *, rules: bool = False, search: Sequence[Path] = ()
) -> list[RawKernel]:
    """Read all kernels of a report, as `ncu_report_reader.read_report` does.

    Raises:
        GpuperfError: As `read_report`, or the reading process crashed.
    """
    folders = [str(folder) for folder in search]
    request = Request(str(path), None if names is None else list(names), folders, rules)
    done = ask_apart(__name__, msgspec.json.encode(request))
    answer = None
    # A library may end its process with success, too, and give no text for a name in a damaged report.
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        answer = msgspec.json.decode(done.stdout, type=Answer)
    if done.returncode != 0 or answer is None:
        raise GpuperfError(
            f"NVIDIA's ncu_report failed to read {path.name} (exit status {done.returncode})",
            expected="a complete report, and an ncu_report at least as new as the ncu that wrote it",
            next_step="try a newer one: `pip install -U ncu-report`",
        )
    if answer.error:
        raise GpuperfError(answer.error)
    return answer.kernels


def main() -> None:
    """Answer the request on standard input."""
    serve(_answer)


def _answer(question: bytes) -> bytes:
    request = msgspec.json.decode(question, type=Request)
    try:
        search = [Path(folder) for folder in request.search]
        path = Path(request.report)
        answer = Answer(read_report(path, request.names, rules=request.rules, search=search))
    except GpuperfError as error:
        answer = Answer(error=str(error))
    return msgspec.json.encode(answer)
