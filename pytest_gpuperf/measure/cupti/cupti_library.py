"""CUPTI's host half asked for metrics and passes of any chip, in a process of its own (`cupti_host`).

Without a driver, libraries later than CUDA 13.1 refuse or crash.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from pytest_gpuperf.measure.cupti.binding import Cupti
from pytest_gpuperf.measure.cupti.host import Host, chips
from pytest_gpuperf.processes.isolation import serve


class Question(msgspec.Struct, frozen=True):
    """What to ask a library."""

    path: str
    """Of `libcupti.so`."""
    chip: str
    """As CUPTI spells it: `GH100`."""
    sets: list[list[str]]
    """Raw metric names with their suffixes, a list for each set to be counted."""


class Answer(msgspec.Struct, frozen=True):
    """What it says; everything is empty where it does not know the chip."""

    chips: list[str] = []
    base: list[str] = []
    """Names of all metrics of the chip, without suffixes."""
    passes: list[int | None] = []
    """Passes of each set; None where a name in it is unknown."""


def main() -> None:
    """Answer the question on standard input."""
    serve(_answer)


def _answer(data: bytes) -> bytes:
    question = msgspec.json.decode(data, type=Question)
    cupti = Cupti(Path(question.path))
    known = chips(cupti)
    answer = Answer(chips=known)
    if question.chip in known:
        host = Host(cupti, question.chip)
        answer = Answer(
            chips=known,
            base=host.base_metrics(),
            passes=[_passes(host, names) for names in question.sets],
        )
    return msgspec.json.encode(answer)


def _passes(host: Host, metrics: list[str]) -> int | None:
    if not metrics:
        return 0
    found = host.configuration(metrics)
    return found.passes if found else None
