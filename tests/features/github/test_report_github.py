from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.features.github.annotations import error_annotations
from pytest_gpuperf.judge.result import Status
from report_examples import result


def test_failure_is_shown_at_the_line_of_the_test() -> None:
    slower = result("suites/test_square.py::test_square[a,b]", Status.REGRESSED, line="11 % slower")
    assert error_annotations([slower], lines={"suites/test_square.py::test_square[a,b]": 12}) == [
        "::error file=suites/test_square.py,line=12,title=gpuperf%3A regressed%3A test_square[a%2Cb]"
        "::gpuperf: 11 %25 slower"
    ]


def test_passed_tests_are_not_annotated() -> None:
    assert error_annotations([result(status=s) for s in Status if not s.fails]) == []


def test_the_ten_worst_failures_are_annotated() -> None:
    failed = [result(f"t.py::test_{number}", Status.LIMIT, line="x") for number in range(40)]
    failed[39] = result("t.py::test_39", Status.WRONG, line="x")
    commands = error_annotations(failed)
    assert len(commands) == 10
    assert "test_39" in commands[0]


@given(st.text(), st.text())
def test_names_and_messages_cannot_start_a_command(name: str, message: str) -> None:
    hostile = f"{name}\r\n::add-mask::x##[add-mask]\x1b[31m\u202e"
    results = [result(f"t.py::{hostile}", Status.WRONG, line=f"{message}\n::stop-commands::x##[error]")] * 11
    for command in error_annotations(results):
        assert command.startswith("::error ")
        assert command.isprintable()
        assert "##[" not in command


@pytest.mark.parametrize(("prefix", "file"), [("", "t.py"), ("packages/a", "packages/a/t.py")])
def test_annotation_without_a_line_is_at_the_file(prefix: str, file: str) -> None:
    [found] = error_annotations([result("t.py::test_x", Status.WRONG, line="x")], prefix=prefix)
    assert f"::error file={file},title=" in found
