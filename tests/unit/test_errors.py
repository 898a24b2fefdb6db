"""Errors of the plugin itself, as one line."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from pytest_gpuperf.errors import ISSUES, GpuperfError, PluginPart, guarded, show_repr
from pytest_gpuperf.records.call import Call


def told(error: BaseException, part: PluginPart = "report") -> str:
    lines: list[str] = []
    with guarded(part, lines.append):
        raise error
    return "".join(lines)


class Hostile(Exception):
    def __str__(self) -> NoReturn:
        raise RuntimeError

    __repr__ = __str__


def test_tracker_is_the_one_of_the_package() -> None:
    project = msgspec.toml.decode((Path(__file__).parents[2] / "pyproject.toml").read_bytes())["project"]
    assert project["urls"]["Issues"] == ISSUES


def test_line_names_part_exception_and_tracker() -> None:
    line = told(KeyError("liger_kernel.ops"), "run file")
    assert line.startswith("error in the run file: KeyError: 'liger_kernel.ops'; ")
    assert line.endswith(ISSUES)


@pytest.mark.parametrize("text", ["a\x1b[31m", "a\nb", "x" * 10_000])
def test_line_is_short_and_plain(text: str) -> None:
    line = told(ValueError(text))
    assert line.isprintable()
    assert len(line) < 500


def test_exception_without_a_text_is_named() -> None:
    assert told(Hostile()).startswith("error in the report: Hostile; ")


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        pytest.UsageError("x"),
        pytest.exit.Exception("x"),
        pytest.skip.Exception("x"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
    ],
)
def test_errors_of_others_pass(error: BaseException) -> None:
    with pytest.raises(type(error)):
        told(error)


def test_error_to_fix_passes_only_parts_that_refuse() -> None:
    with pytest.raises(GpuperfError):
        told(GpuperfError("x"), "counters")
    assert told(GpuperfError("x"), "report")


def test_error_of_the_callable_under_test_passes() -> None:
    with pytest.raises(ZeroDivisionError), guarded("counters", print):
        Call("test_k.py::test_k", "main", divmod, (1, 0))()


@pytest.mark.parametrize("value", [10**5000, Hostile(), "a\x1b\nb", "x" * 10_000], ids=type)
def test_any_value_is_shown_on_a_short_line(value: object) -> None:
    text = show_repr(value)
    assert text.isprintable()
    assert 0 < len(text) <= 41
