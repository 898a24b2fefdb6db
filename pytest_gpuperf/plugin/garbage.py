"""Python's garbage collector in a replay, whose many small objects live until pytest ends."""

from __future__ import annotations

import gc

import pytest

from pytest_gpuperf.session.base import RUNNER

RARELY = 1000
"""Collections of younger objects before one that looks at the old ones; Python's own number is 10."""


class RareCollections:
    """Lets the collector leave old objects alone: it takes a twentieth of a large replay to find nothing.

    Once tests run on a GPU it works as usual, because old garbage may hold memory of the GPU.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._frozen = False
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*self._thresholds[:2], RARELY)
        # The first clean-up is the last one that pytest does, after its own search for garbage.
        config.add_cleanup(self._restore)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Put aside the tests and their records until the end of pytest."""
        runner = session.config.stash.get(RUNNER, None)
        if runner is None or runner.replayed_from is None:
            gc.set_threshold(*self._thresholds)
            return
        gc.freeze()
        self._frozen = True

    def _restore(self) -> None:
        if self._frozen:
            gc.unfreeze()
        gc.set_threshold(*self._thresholds)
