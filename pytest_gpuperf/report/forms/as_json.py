"""The data of a report as JSON: structured objects, with all digits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pytest_gpuperf.report.table import Report, Screen


def render(report: Report, screen: Screen) -> str:
    """Return indented JSON; a number that is not finite is null."""
    del screen  # for people only
    data = report.records if report.data is None else report.data
    return msgspec.json.format(msgspec.json.encode(data), indent=1).decode() + "\n"
