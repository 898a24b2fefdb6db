"""Choice of the launches of a call to profile: those of the kernels that a regex finds, all or one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.records.call import Call

Launch = TypeVar("Launch")

Launches: TypeAlias = Literal["all", "first", "last"] | int
"""An index counts from 0, or from the end if it is negative."""


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
    if isinstance(value, int) and not isinstance(value, bool):
        return cast("Launches", {0: "first", -1: "last"}.get(value, value))
    raise GpuperfError(
        f"launches={value!r} {where}",
        expected="'all', 'first', 'last', or the index of a launch: from 0 on, or from -1 back",
    )


def check_regex(regex: str, where: str) -> None:
    """Refuse a broken regex before anything runs."""
    try:
        re.compile(regex)
    except re.error as error:
        raise GpuperfError(
            f"the kernel regex {regex!r} {where} is broken: {error}",
            expected="a Python regex",
            next_step="escape characters such as ( [ * + with a backslash",
        ) from None
