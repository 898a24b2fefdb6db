"""The summary of a run that only compiles."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("triton")


from static_builders import fake_compiler, write_test


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return fake_compiler(monkeypatch)


def test_markdown_has_a_column_for_static_facts(
    pytester: pytest.Pytester, compiler: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    compiler.update(spills=16, shared_memory_bytes=49152)
    write_test(pytester)
    pytester.runpytest("--gpuperf")
    text = (pytester.path / "summary.md").read_text()
    assert "| test | occupancy | compiled | verdict |" in text
    assert "24 regs, 16 B spilled, 48.0 KiB shared, 128-bit loads |" in text
