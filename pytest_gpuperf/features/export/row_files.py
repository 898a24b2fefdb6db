"""The rows of runs as CSV or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.features.export.data_frame import COLUMNS, rows, to_frame
from pytest_gpuperf.report.forms.as_json import escaped

if TYPE_CHECKING:
    from pytest_gpuperf.records import Run


def to_csv(*runs: Run) -> bytes:
    """Return the data frames of `to_frame` as CSV."""
    import pandas as pd

    frame = pd.concat([to_frame(run) for run in runs], ignore_index=True)
    text: str = frame.to_csv(index=False, lineterminator="\n")
    return text.encode()


def to_json(*runs: Run) -> bytes:
    """Return the rows as a list of objects, one a line; a number that is not finite is null."""
    found = [dict(zip(COLUMNS, row, strict=True)) for run in runs for row in rows(run)]
    text = b",\n".join(map(msgspec.json.encode, found)).decode()
    return escaped(f"[\n{text}\n]\n" if found else "[]\n").encode()
