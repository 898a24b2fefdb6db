"""Tests of the benchmarks' child processes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.children import Child, ChildError, in_turn

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _fakes_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)


@pytest.fixture
def children() -> Iterator[list[Child]]:
    started: list[Child] = []
    yield started
    for child in started:
        child.stop()


def said(child: Child, limit_s: float = 20.0) -> tuple[list[Any], str]:
    """Return a child's messages and its failure."""
    child.begin()
    messages = []
    try:
        for message in child.messages(limit_s):
            messages.append(message)  # noqa: PERF402
    except ChildError as error:
        return messages, str(error)
    return messages, ""


def test_messages_of_a_child_keep_their_order(children: list[Child]) -> None:
    children.append(Child("fake_children:count", ["3"]))
    assert said(children[0]) == ([0, 1, 2], "")


def test_failed_child_keeps_messages_and_last_line(children: list[Child]) -> None:
    children.append(Child("fake_children:fail"))
    messages, why = said(children[0])
    assert messages == ["first"]
    assert why == "ended with status 1: RuntimeError: CUDA error: an illegal memory access was encountered"


def test_killed_child_reports_the_signal(children: list[Child]) -> None:
    children.append(Child("fake_children:be_killed"))
    assert said(children[0]) == ([], "ended with status -9")


def test_missing_target_is_a_failure(children: list[Child]) -> None:
    children.append(Child("no_such_module:measure"))
    assert "No module named 'no_such_module'" in said(children[0])[1]


def test_hanging_child_ends_with_its_programs(children: list[Child], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.children.GRACE_S", 0.1)
    child = Child("fake_children:hang")
    children.append(child)
    (program,), why = said(child, limit_s=3)
    assert why == "was not done in 3 s"
    child.stop()
    assert child._process.returncode == -9
    assert gone(program)


def gone(pid: int) -> bool:
    """Return True if a process ends within some seconds; a zombie has ended."""
    status = Path(f"/proc/{pid}/stat")
    for _ in range(50):
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("ahead", [True, False])
def test_child_imports_ahead_but_waits_for_its_turn(tmp_path: Path, *, ahead: bool) -> None:
    path = tmp_path / "notes"
    for child in in_turn([("fake_children:note_times", [str(path)])] * 2, ahead=ahead):
        # Long enough for the next child to import, which it must not do without `ahead`.
        time.sleep(1.0)
        assert list(child.messages(20)) == []
    notes = path.read_text().split()
    overlapping = ["imported", "imported", "begins", "ends", "begins", "ends"]
    assert sorted(notes) == sorted(overlapping)
    work = [note for note in notes if note != "imported"]
    assert work == ["begins", "ends", "begins", "ends"]
    assert (notes.index("ends") > len(notes) - 1 - notes[::-1].index("imported")) is ahead


def test_unused_children_are_ended() -> None:
    turns = in_turn([("fake_children:count", ["1"]), ("fake_children:count", ["1"])])
    first = next(turns)
    turns.close()
    assert first._process.returncode is not None
