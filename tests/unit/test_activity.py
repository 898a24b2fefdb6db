"""CUPTI's activity records: when CUPTI is attached and detached."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from cuda_header import cuda_numbers
from pytest_gpuperf.measure.cupti import activity
from pytest_gpuperf.measure.cupti.activity import Activity, kept_attached, recorded


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


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> activity._Recorder:
    made: Any = Library()
    return activity._Recorder(made, activity._CONCURRENT_KERNEL)


@pytest.mark.parametrize(
    ("record", "kind", "copy_kind", "with_host"),
    [
        (activity._Memory, "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_MEMCPY_KIND_HTOD", True),
        (activity._Memory, "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_MEMCPY_KIND_DTOD", False),
        (activity._PeerCopy, "CUPTI_ACTIVITY_KIND_MEMCPY2", "CUPTI_ACTIVITY_MEMCPY_KIND_PTOP", False),
        (activity._Memory, "CUPTI_ACTIVITY_KIND_MEMSET", "", False),
    ],
)
def test_copies_and_fills_are_read(
    recorder: activity._Recorder, record: Any, kind: str, copy_kind: str, with_host: bool
) -> None:
    numbers = cuda_numbers("cupti_activity.h")
    kinds = {"kind": numbers[kind], "copy_kind": numbers.get(copy_kind, 0)}
    memory = record(bytes=64, start=10, end=30, device=1, stream=7, correlation_id=5, **kinds)
    recorder._read(ctypes.addressof(memory))
    (read,) = recorder.activities
    assert read == Activity(10, 30, "", 64, launch=5, stream=7, device=1, with_host=with_host)


def test_copy_between_devices_has_its_launch_behind_both_devices() -> None:
    """As `correlationId` of `CUpti_ActivityMemcpyPtoP4`: after 3 times device and context, and the stream."""
    assert activity._PeerCopy.correlation_id.offset == 32 + 4 * 7
    assert activity._Memory.correlation_id.offset == 32 + 4 * 3
