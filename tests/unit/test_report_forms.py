"""The table model in each output form."""

from __future__ import annotations

import json

import pytest
from inline_snapshot import snapshot

from pytest_gpuperf.report.forms import FORMS, render
from pytest_gpuperf.report.table import Column, Report, Screen, Table

SCREEN = Screen(60)
REPORT = Report(
    tables=[
        Table(
            [
                Column("file", ["a.py", "a.py", "b.py"], "group", code=True),
                Column("test", ["test_x", "test_y|`", "test_z"], "name", code=True),
                Column("unit", ["us", "", "us"], "unit"),
                Column("time", ["5.30", "", "12.0"]),
                Column("change", ["", "", "+2.0 %"], tones=["", "", "worse"], follows=True),
                Column("empty", ["", "", ""]),
                Column(
                    "verdict", ["pass", "wrong", "pass"], "outcome", left=True, tones=["pass", "bad", "pass"]
                ),
                Column("note", ["", "first\nsecond", ""], "detail"),
            ],
            above=["from run 1"],
            notes=["a note"],
        )
    ],
    records=[
        {"test": "test_x", "time_us": 5.3, "names": ["a", "b"]},
        {"test": "test_z", "change_pct": None, "same": True},
    ],
)


def test_text_groups_rows_and_puts_details_below() -> None:
    assert render(REPORT, "text", SCREEN).splitlines() == snapshot(
        [
            "from run 1",
            "",
            "  test      unit         time  verdict",
            "--------------------------------------",
            "a.py",
            "  test_x    us    5.30         pass",
            "  test_y|`                     wrong",
            "      first",
            "      second",
            "b.py",
            "  test_z    us    12.0 +2.0 %  pass",
            "",
            "a note",
        ]
    )


def test_markdown_shows_every_column() -> None:
    assert render(REPORT, "markdown", SCREEN).splitlines() == snapshot(
        [
            "from run 1",
            "",
            "| file | test | unit | time | change | verdict | note |",
            "| --- | --- | --- | ---: | ---: | --- | --- |",
            "| `a.py` | `test_x` | us | 5.30 |  | ✅ pass |  |",
            "| `a.py` | `` test_y\\|` `` |  |  |  | ❌ wrong | first<br>second |",
            "| `b.py` | `test_z` | us | 12.0 | +2.0 % | ✅ pass |  |",
            "",
            "- a note",
        ]
    )


def test_csv_has_one_line_for_each_record() -> None:
    assert render(REPORT, "csv", SCREEN).splitlines() == snapshot(
        ["test,time_us,names,change_pct,same", "test_x,5.3,a b,,", "test_z,,,,yes"]
    )


def test_json_has_the_records_by_default() -> None:
    assert json.loads(render(REPORT, "json", SCREEN)) == [dict(record) for record in REPORT.records]


@pytest.mark.parametrize("form", FORMS)
def test_empty_report_can_be_rendered(form: str) -> None:
    assert render(Report([], []), form, SCREEN).strip() in ("", "[]")


def test_columns_without_room_stand_below_their_name() -> None:
    values = [Column(f"column {number}", ["1234567890"]) for number in range(6)]
    table = Table([Column("metric", ["time"], "name"), Column("unit", ["us"], "unit"), *values])
    *titles, rule, name, first, second = render(Report([table], []), "text", Screen(50)).splitlines()
    assert [len(line.split()) for line in (name, first, second)] == [2, 4, 2]
    assert [len(title) for title in titles] == [len("metric  unit"), *map(len, (first, second))]
    assert max(map(len, titles)) <= len(rule) <= 50


@pytest.mark.parametrize("colour", [False, True])
def test_prose_is_wrapped_next_to_its_row(colour: bool) -> None:
    columns = [
        Column("", ["disk"], "name"),
        Column("", ["ok"], "outcome", tones=["pass"]),
        Column("", ["word " * 20], "prose"),
    ]
    lines = render(Report([Table(columns)], []), "text", Screen(60, colour)).splitlines()
    assert len(lines) == 2
    assert lines[1].startswith(" " * 10 + "word")
