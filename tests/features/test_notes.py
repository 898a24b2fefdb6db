"""Every command in docs/explanation/notes.md works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.update_output import Block, contents
from trace_builders import TraceBuilder

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "notes.md").read_text(encoding="utf-8")
TYPED = [command for command in re.findall(r"`((?:pytest|gpuperf) [^`]+)`", PAGE) if "RUN" not in command]
NEEDS = {".ncu-rep": "ncu_report"}


def saved_trace() -> str:
    """Return a trace with steps, as torch.profiler's schedule writes it."""
    steps = TraceBuilder()
    for step, start in enumerate((100.0, 200.0, 300.0), start=2):
        steps.annotation(f"ProfilerStep#{step}", start, 60.0)
        steps.kernel("ampere_sgemm_128x128_nn", start + 10, 40.0)
    return steps.data().decode()


def block(command: str) -> Block:
    # Other tests replay the measurements; this one only needs the list of tests.
    whole = f"{command} --collect-only -q" if command.startswith("pytest") else command
    files = {"worker0.pt.trace.json": saved_trace()}
    return Block(ROOT, "docs/explanation/notes.md", "", "", whole, "nothing_measured", "", files)


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    if not list(ROOT.glob("baselines/*/recordings/*.json*")):
        pytest.skip("no recording below baselines/ to show; make one on a GPU (CONTRIBUTING.md)")
    return dict(zip(TYPED, contents([block(command) for command in TYPED]), strict=True))


@pytest.mark.parametrize("command", TYPED)
def test_command_prints_an_answer(command: str, printed: dict[str, str]) -> None:
    for part, module in NEEDS.items():
        if part in command:
            pytest.importorskip(module)
    shown = printed[command].partition("\n$ ")[2].partition("\n")[2].removesuffix("\n```\n").strip()
    assert shown
    assert not re.search(r"(?i)\berror|usage:|no tests|no such kernel|\b0 selected|Traceback", shown), shown


def test_every_note_has_three_commands() -> None:
    for section in PAGE.split("\n## ")[1:]:
        assert sum(command in section for command in TYPED) >= 3, section.partition("\n")[0]
