"""Configurations that Triton's autotuners pick."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.timing.autotuners import watched

if TYPE_CHECKING:
    import pytest


class Autotuner:
    """A stand-in for Triton's."""

    best_config = "BLOCK: 64"

    def __init__(self, fn: object) -> None:
        self.fn = fn

    def run(self, number: int, *, more: int) -> int:
        return number + more


def square_kernel() -> None: ...


def test_picked_configuration_is_kept_and_the_launch_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton.runtime.autotuner", SimpleNamespace(Autotuner=Autotuner))
    run = Autotuner.run
    with watched() as picked:
        assert Autotuner(square_kernel).run(1, more=2) == 3
    assert picked == {"square_kernel": "BLOCK: 64"}
    assert Autotuner.run is run


def test_without_triton_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "triton.runtime.autotuner", raising=False)
    with watched() as picked:
        assert picked == {}
