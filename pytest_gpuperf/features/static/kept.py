"""Cache of compiler results in `.gpuperf/static/`, valid until the code changes."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec

from pytest_gpuperf.records.runs import make_state_folder
from pytest_gpuperf.records.writing import write_files

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")


class Kept:
    """One file, named by the hash of all that its content depends on.

    Args:
        state: The project's `.gpuperf` folder; need not exist.
        parts: Everything that the content depends on.
    """

    def __init__(self, state: Path, *parts: str | bytes) -> None:
        digest = hashlib.sha256()
        for part in parts:
            digest.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
        self._state = state
        self._path = state / "static" / f"{digest.hexdigest()}.json"

    def load(self, kind: type[T]) -> T | None:
        """Return the kept content; None if there is none or it cannot be read."""
        with suppress(OSError, msgspec.MsgspecError):
            content = msgspec.json.decode(self._path.read_bytes(), type=kind)
            os.utime(self._path)  # unused files are removed some day
            return content
        return None

    def store(self, content: object) -> None:
        """Keep the content; an unwritable folder only makes the next run longer."""
        with suppress(OSError):
            make_state_folder(self._state)
            write_files({self._path: msgspec.json.encode(content)})
