"""Origin of a new time and of the stored sessions: card, driver, packages; and how they differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.records import Toolchain
from pytest_gpuperf.records.baseline import RunNote, card_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.records.baseline import Session

PACKAGES = ("torch", "triton", "cuda", "python")
"""Parts of the toolchain that can change a kernel, besides the packages by name."""
_OF_MACHINE = ("driver", "gpuperf")


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Origin of a new time, and of the sessions that it is compared with."""

    card: str = ""
    """UUID of the GPU of the new time."""
    toolchain: Toolchain = Toolchain()
    """Versions with which it was taken."""
    runs: Mapping[str, RunNote] = {}
    """Origins of the sessions, by run id."""

    def counted(self, sessions: Iterable[Session]) -> list[list[Session]]:
        """Return the sessions that a new time is compared with, by card.

        They are those of the same card, driver and plugin; or else of the same card; or else of all cards.
        """
        cards: dict[str, list[Session]] = {}
        for session in sessions:
            cards.setdefault(card_of(session, self.runs), []).append(session)
        own = cards.get(self.card, [])
        alike = [session for session in own if not self._changed(session, _OF_MACHINE)]
        return [alike or own] if own else list(cards.values())

    def differences(self, sessions: Sequence[Session]) -> tuple[list[str], list[str]]:
        """Compare a new time with the newest of the sessions that it is compared with.

        Returns:
            Packages that can change a kernel, as `torch 2.11.0 -> 2.12.0`; then card, driver and this plugin.
        """
        groups = self.counted(sessions)
        newest = max((group[-1] for group in groups), key=sessions.index)
        before = card_of(newest, self.runs)
        other = ["another card"] if before and self.card and before != self.card else []
        return self._changed(newest, PACKAGES), [*other, *self._changed(newest, _OF_MACHINE)]

    def _changed(self, session: Session, names: Sequence[str]) -> list[str]:
        before = self.runs[session.run].toolchain if session.run in self.runs else Toolchain()
        pairs = [(name, getattr(before, name), getattr(self.toolchain, name)) for name in names]
        if names is PACKAGES:
            now = self.toolchain.packages
            pairs += [(name, old, now.get(name, "")) for name, old in before.packages.items()]
        return [f"{name} {old} -> {new}" for name, old, new in pairs if old and new and old != new]
