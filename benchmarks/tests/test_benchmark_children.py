"""The processes of the benchmarks: what they say is kept, however they end."""

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
    """What a child says until it ends, and how it failed."""
    child.begin()
    messages = []
    try:
        for message in child.messages(limit_s):
            messages.append(message)  # noqa: PERF402
    except ChildError as error:
        return messages, str(error)
    return messages, ""


def test_what_a_child_says_comes_in_order(children: list[Child]) -> None:
    children.append(Child("fake_children:count", ["3"]))
    assert said(children[0]) == ([0, 1, 2], "")


def test_what_a_child_said_before_it_failed_is_kept_and_its_last_line_says_why(children: list[Child]) -> None:
    children.append(Child("fake_children:fail"))
    messages, why = said(children[0])
    assert messages == ["first"]
    assert why == "ended with status 1: RuntimeError: CUDA error: an illegal memory access was encountered"


def test_a_child_that_is_killed_says_by_what(children: list[Child]) -> None:
    children.append(Child("fake_children:be_killed"))
    assert said(children[0]) == ([], "ended with status -9")


def test_a_target_that_does_not_exist_is_a_failure_like_others(children: list[Child]) -> None:
    children.append(Child("no_such_module:measure"))
    assert "No module named 'no_such_module'" in said(children[0])[1]


def test_a_child_that_hangs_is_ended_with_what_it_has_started(
    children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.children.GRACE_S", 0.1)
    child = Child("fake_children:hang")
    children.append(child)
    (program,), why = said(child, limit_s=3)
    assert why == "was not done in 3 s"
    child.stop()
    assert child._process.returncode == -9
    assert gone(program)


def gone(pid: int) -> bool:
    """Whether a process has ended, within some seconds; a zombie has."""
    status = Path(f"/proc/{pid}/stat")
    for _ in range(50):
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("ahead", [True, False])
def test_a_child_imports_ahead_and_works_only_in_its_turn(tmp_path: Path, *, ahead: bool) -> None:
    path = tmp_path / "notes"
    for child in in_turn([("fake_children:note_times", [str(path)])] * 2, ahead=ahead):
        # Long enough for the next one to be imported, which it must not be where it is not to.
        time.sleep(1.0)
        assert list(child.messages(20)) == []
    notes = path.read_text().split()
    overlapping = ["imported", "imported", "begins", "ends", "begins", "ends"]
    assert sorted(notes) == sorted(overlapping)
    work = [note for note in notes if note != "imported"]
    assert work == ["begins", "ends", "begins", "ends"]
    assert (notes.index("ends") > len(notes) - 1 - notes[::-1].index("imported")) is ahead


def test_children_that_nobody_waits_for_are_ended() -> None:
    turns = in_turn([("fake_children:count", ["1"]), ("fake_children:count", ["1"])])
    first = next(turns)
    turns.close()
    assert first._process.returncode is not None
