"""Explanations of a run that only compiles."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("triton")


from pytest_gpuperf.cli import main
from static_builders import fake_compiler, write_test


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return fake_compiler(monkeypatch)


def test_static_run_cannot_be_explained(
    pytester: pytest.Pytester, compiler: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pytester.path)
    write_test(pytester)
    pytester.runpytest("--gpuperf")
    result = CliRunner().invoke(main, ["explain"])
    assert result.exit_code != 0
    assert "has no counters of any test" in result.output
