"""A run whose tests stay on the disk: each is read when it is asked for."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.packed import is_packed
from pytest_gpuperf.records.run_lines import decode_test
from pytest_gpuperf.records.runs import EXPECTED, load_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gpuperf.records import TestRecord


class RunOnDisk:
    """Checks a run file as `load_run`, and keeps little of its tests in memory.

    The file stays open, so that one that is replaced meanwhile is still read. The tests of a file that is
    gzipped, or that another tool has written, are kept as a whole.

    Args:
        path: The file.
        shorten: Takes from each test the parts that are not needed of all tests at once.

    Raises:
        GpuperfError: As `load_run`.
    """

    def __init__(self, path: Path, shorten: Callable[[TestRecord], TestRecord]) -> None:
        self._path = path
        self._places: dict[str, tuple[int, int]] = {}
        self._whole: dict[str, TestRecord] = {}
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise GpuperfError(
                f"{show_path(path)} cannot be read: {error.strerror}", expected=EXPECTED
            ) from None
        weakref.finalize(self, os.close, self._file)
        by_lines = not self._is_packed()

        def keep(test: TestRecord) -> TestRecord:
            if not by_lines or test.nodeid not in self._places:
                self._whole[test.nodeid] = test
            return shorten(test)

        self.run = load_run(path, keep, self._places)
        """The run, with shortened tests."""

    def _is_packed(self) -> bool:
        try:
            return is_packed(self._file)
        except OSError:  # a folder; its error comes from reading it
            return True

    def test(self, nodeid: str) -> TestRecord | None:
        """Return a whole test; None if the run does not have it.

        Raises:
            GpuperfError: The file was written to since it was read.
        """
        if nodeid in self._whole or nodeid not in self._places:
            return self._whole.get(nodeid)
        begin, end = self._places[nodeid]
        try:
            test = decode_test(os.pread(self._file, end - begin, begin))
        except (OSError, msgspec.MsgspecError):
            test = None
        if test is None or test.nodeid != nodeid:
            raise GpuperfError(
                f"{show_path(self._path)} has changed while it was replayed",
                expected="a file that nobody writes to",
                next_step="run again",
            )
        return test
