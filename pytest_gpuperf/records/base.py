"""Base class of all records."""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of all parts of a run file.

    Records have no cycles, so the garbage collector need not look at them.
    """
