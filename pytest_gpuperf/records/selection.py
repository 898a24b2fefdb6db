"""Choice of the launches of a call to profile: those of the kernels that a regex finds, all or one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast

from pytest_gpuperf.errors import GpuperfError, show_repr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.records.call import Call

Launch = TypeVar("Launch")

Launches: TypeAlias = Literal["all", "first", "last"] | int
"""An index counts from 0, or from the end if it is negative."""
LAST_LAUNCH = 2**31
"""Largest index that makes sense."""


@dataclass(frozen=True)
class Selection:
    """Launches that one call of `profile()` asks for."""

    regex: str | None = None
    """Found in a kernel's function name or in the demangled one; None for all kernels."""
    launches: Launches = "all"
    """Launches of those kernels."""

    @property
    def recorded(self) -> str:
        """Launches in the form of a record: empty for all."""
        return "" if self.launches == "all" else str(self.launches)

    @classmethod
    def of_record(cls, regex: str, launches: str) -> Selection:
        """Return the selection that a record tells of; see `recorded`."""
        if launches in ("", "first", "last"):
            return cls(regex or None, cast("Launches", launches or "all"))
        return cls(regex or None, int(launches))

    def pick(self, launches: Sequence[Launch], call: Call) -> Sequence[Launch]:
        """Return the requested launches of those that the regex finds.

        Raises:
            GpuperfError: There are fewer.
        """
        if self.launches == "all":
            return launches
        index = {"first": 0, "last": -1}.get(str(self.launches), self.launches)
        assert isinstance(index, int)
        if not -len(launches) <= index < len(launches):
            count = len(launches)
            launched = "1 launch" if count == 1 else f"{count} launches"
            raise GpuperfError(
                f"launches={index} of {call}, of which {launched} matched",
                expected=f"an index from {-count} to {count - 1}",
            )
        return [launches[index]]


def check_launches(value: object, where: str) -> Launches:
    """Check `launches=` as a user wrote it.

    Args:
        value: The value.
        where: Its place, for the message.

    Raises:
        GpuperfError: It is neither a word that is known nor an index.
    """
    if isinstance(value, str) and value in ("all", "first", "last"):
        return cast("Launches", value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LAST_LAUNCH:
        return cast("Launches", {0: "first", -1: "last"}.get(value, value))
    raise GpuperfError(
        f"launches={show_repr(value)} {where}",
        expected="'all', 'first', 'last', or the index of a launch: from 0 on, or from -1 back",
    )


def check_kernels(value: object, where: str) -> str | None:
    """Check `kernels=` as a user wrote it.

    Args:
        value: A regex, a list of them, or None.
        where: Its place, for the message.

    Returns:
        One regex; None for all kernels.

    Raises:
        GpuperfError: It is something else, or a broken regex.
    """
    if value is None:
        return None
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not parts or not all(isinstance(part, str) for part in parts):
        raise GpuperfError(f"kernels={show_repr(value)} {where}", expected="a regex or a list of them")
    for part in parts:
        check_regex(part, where)
    return str(parts[0]) if len(parts) == 1 else "|".join(f"(?:{part})" for part in parts)


def check_regex(regex: str, where: str) -> None:
    """Refuse a broken regex before anything runs."""
    try:
        re.compile(regex)
        broken = "" if regex.isprintable() else "it has characters that cannot be printed"
    except (re.error, OverflowError, RecursionError) as error:
        broken = str(error)
    if broken:
        raise GpuperfError(
            f"the kernel regex {show_repr(regex)} {where} is broken: {broken}",
            expected="a Python regex",
            next_step="escape characters such as ( [ * + with a backslash",
        )
