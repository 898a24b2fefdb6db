from __future__ import annotations

import pytest

from ncu_command import CAPTURES


@pytest.fixture
def in_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CAPTURES)
