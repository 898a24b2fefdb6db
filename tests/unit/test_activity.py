"""CUPTI's activity records: when CUPTI is attached and detached."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gpuperf.measure.cupti import activity
from pytest_gpuperf.measure.cupti.activity import kept_attached, recorded


class Library:
    """A CUPTI that records nothing."""

    def __init__(self) -> None:
        self.finalised = 0
        self.functions = SimpleNamespace(
            cuptiActivityGetNextRecord=ctypes.CFUNCTYPE(ctypes.c_int)(),
            cuptiActivityDisable=lambda _: 0,
            cuptiFinalize=self._finalise,
        )

    def call(self, function: str, *arguments: Any) -> None:
        """Do nothing."""

    def _finalise(self) -> int:
        self.finalised += 1
        return 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(activity, "cupti", lambda: made)
    monkeypatch.setattr(activity, "_RECORDERS", [])
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    return made


def test_each_recording_detaches_cupti(library: Library) -> None:
    for number in (1, 2):
        before = library.finalised
        with recorded():
            assert library.finalised == before + 1, "what others have left attached"
        assert library.finalised == 2 * number


def test_cupti_stays_attached_for_several_recordings(library: Library) -> None:
    with kept_attached():
        for _ in range(3):
            with recorded():
                assert library.finalised == 1, "what others have left attached"
    assert library.finalised == 2


def test_nothing_is_detached_if_nothing_was_recorded(library: Library) -> None:
    with kept_attached():
        pass
    assert library.finalised == 0


def test_recordings_after_it_detach_cupti_again(library: Library) -> None:
    with pytest.raises(ZeroDivisionError), kept_attached(), recorded():
        raise ZeroDivisionError
    assert library.finalised == 2
    with recorded():
        pass
    assert library.finalised == 4
