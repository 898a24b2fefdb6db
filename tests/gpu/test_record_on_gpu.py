"""`gpuperf baseline record` on a real GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from click.testing import CliRunner

from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.cli import main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]

SUITE = """
import torch

def test_square(gpuperf):
    x = torch.randn(2048, 2048, device=gpuperf.device)
    gpuperf(torch.square, x, expected=torch.square, bytes=2 * x.nbytes)
"""


def test_fresh_processes_become_sessions_of_one_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_k.py").write_text(SUITE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    result = CliRunner().invoke(main, ["baseline", "record", "--sessions", "3"])
    assert result.exit_code == 0, result.output
    store = BaselineStore(tmp_path / "baselines")
    (slug,) = store.slugs()
    known = store.load(slug, "test_k")
    assert known is not None
    (time,) = known.times
    assert len({session.run for session in time.sessions}) == 3
    assert len({known.runs[session.run].gpu_uuid for session in time.sessions}) == 1
    assert max(s.time_us for s in time.sessions) < 1.05 * min(s.time_us for s in time.sessions)
