"""Search for the smallest failing case: Hypothesis draws, shrinks and keeps it.

Three steps, each with the same test of a case:

1. The failures that Hypothesis has kept from former runs, from its example database.
2. The fixed cases.
3. Cases that Hypothesis draws, until the time is over.

The first failure ends the search. Hypothesis makes it smaller, for at most as long again: a failed fixed case
goes to it as an entry of a database.
"""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from unittest import SkipTest

from pytest_gpuperf._version import requirement
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.fuzz.case import EndOfSearchError

try:
    import hypothesis
    from hypothesis.database import InMemoryExampleDatabase, MultiplexedDatabase, choices_to_bytes
    from hypothesis.errors import Flaky, NoSuchExample, Unsatisfiable
    from hypothesis.strategies import composite, integers
except ModuleNotFoundError as error:
    raise GpuperfError(
        f"gpuperf.fuzz needs {error.name}, which is not installed",
        expected="Hypothesis",
        next_step=f"type `pip install '{requirement('fuzz')}'`",
    ) from None

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import DrawFn

    from pytest_gpuperf.features.fuzz.case import FuzzCase
    from pytest_gpuperf.features.fuzz.space import Space

_ENDLESS = 10**6
"""Examples of a search that only time ends."""
_SHOWN_S = 0.2
"""Time between two changes of the progress line."""


@dataclass
class Search:
    """One search.

    Args:
        space: The cases.
        fails: Returns why a case fails; empty if it does not.
        name: Test and label, under which Hypothesis keeps the failure.
        seconds: Time for new cases.
        progress: Shows how far it is.
        clock: Returns seconds.
    """

    space: Space
    fails: Callable[[FuzzCase], str]
    name: str
    seconds: float
    progress: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    cases: int = 0
    """Cases so far."""
    found_after: int = 0
    """Number of the first failed case; 0 if none failed."""
    smallest: FuzzCase | None = None
    """The smallest failed case."""
    failure: str = ""
    """Why it failed."""
    _begin: float = 0.0
    _until: float = math.inf
    _shown: float = -math.inf
    _seen: dict[str, bool] = field(default_factory=dict)

    def run(self, large: Sequence[FuzzCase] = ()) -> None:
        """Search, the large cases last of the fixed ones."""
        self._begin = self.clock()
        try:
            if self._hypothesis(hypothesis.Phase.reuse):
                return
            for case in [*self.space.corpus(), *large]:
                if self._test(case):
                    self._shrink(case)
                    return
            self._hypothesis(hypothesis.Phase.generate)
        except EndOfSearchError:
            return

    def _shrink(self, case: FuzzCase) -> None:
        entry = InMemoryExampleDatabase()
        # One number too many: Hypothesis takes an entry that fits for one that it has made small before.
        entry.save(self._key, choices_to_bytes([*self.space.nearest(case)[1], 0]))
        self._hypothesis(hypothesis.Phase.reuse, entry)

    @property
    def _key(self) -> bytes:
        return hashlib.sha256(f"gpuperf.fuzz {self.name}".encode()).digest()

    def _hypothesis(self, phase: hypothesis.Phase, entry: InMemoryExampleDatabase | None = None) -> bool:
        """Run one phase, and make a failure smaller. Returns True if there is one."""
        present = hypothesis.settings()
        kept = present.database
        database = kept if entry is None else entry if kept is None else MultiplexedDatabase(entry, kept)
        options = hypothesis.settings(
            max_examples=_ENDLESS,
            phases=(phase, hypothesis.Phase.shrink),
            database=database,
            # Hypothesis takes no database with it. Its profile for CI has none, and the same cases each time.
            derandomize=present.derandomize and database is None,
            deadline=None,
            verbosity=hypothesis.Verbosity.quiet,
        )
        space = self.space

        @composite
        def cases(draw: DrawFn) -> FuzzCase:
            return space.build(lambda _name, low, high: draw(integers(low, high)))

        try:
            hypothesis.find(cases(), self._test, settings=options, database_key=self._key)
        except (NoSuchExample, Unsatisfiable, SkipTest):  # skipped: nothing is kept
            return False
        except Flaky:
            # It fails sometimes: the failure is kept.
            return True
        return True

    def _test(self, case: FuzzCase) -> bool:
        """Return True if a case fails; shrinking asks for some cases again."""
        if self._seen.get(repr(case)) is not None and case != self.smallest:
            return self._seen[repr(case)]
        if self.clock() > self._until:
            raise EndOfSearchError
        self.cases += 1
        self._show(case)
        failure = self.fails(case)
        self._seen[repr(case)] = bool(failure)
        if self.cases == 1 or (failure and not self.found_after):
            # The first call may compile for longer than the whole search takes.
            self._until = self.clock() + self.seconds
        if failure:
            self.found_after = self.found_after or self.cases
            if self.smallest is None or self._order(case) <= self._order(self.smallest):
                self.smallest, self.failure = case, failure
        return bool(failure)

    def _show(self, case: FuzzCase) -> None:
        now = self.clock()
        if now - self._shown >= _SHOWN_S:
            self._shown = now
            self.progress(f"{self.cases} cases, {now - self._begin:.0f} of {self.seconds:g} s: {case}")

    def _order(self, case: FuzzCase) -> tuple[int, list[int]]:
        return case.elements, self.space.nearest(case)[1]
