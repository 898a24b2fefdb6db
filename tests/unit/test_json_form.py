"""JSON in pieces."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_gpuperf.cli.output import show
from pytest_gpuperf.report.forms import as_json
from pytest_gpuperf.report.table import Items, Report

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = [{"a": 1, "b": [1, {"c": []}]}, {}, {"a": float("nan"), "b": "two\nlines"}]


@pytest.mark.parametrize("rows", [ROWS, []])
def test_list_is_written_like_json_of_the_whole(rows: list[Any]) -> None:
    whole = msgspec.json.format(msgspec.json.encode({"first": {"x": 1}, "rows": rows, "last": []}), indent=1)
    data = {"first": {"x": 1}, "rows": Items(lambda: rows), "last": []}
    assert "".join(as_json.pieces(Report([], [], data))) == whole.decode() + "\n"


@pytest.mark.parametrize("rows", [ROWS, []])
def test_records_are_written_like_json_of_the_whole(rows: list[Any]) -> None:
    whole = msgspec.json.format(msgspec.json.encode(rows), indent=1)
    assert "".join(as_json.pieces(Report([], rows))) == whole.decode() + "\n"


def test_long_list_is_printed_while_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_json, "PIECE", 100)
    printed = io.StringIO()
    seen = []

    def rows() -> Iterator[dict[str, int]]:
        for number in range(100):
            seen.append(len(printed.getvalue()))
            yield {"number": number}

    with redirect_stdout(printed):
        show(Report([], [], {"rows": Items(rows)}), "json")
    assert seen[1] < seen[50] < seen[99]
    assert len(json.loads(printed.getvalue())["rows"]) == 100
