"""The rows of runs as CSV, JSON or Parquet."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.features.export.data_frame import COLUMNS, rows, to_frame
from pytest_gpuperf.report.forms.as_json import escaped
from pytest_gpuperf.report.overwrite_check import PARQUET_WRITER

if TYPE_CHECKING:
    import pandas as pd

    from pytest_gpuperf.records import Run


def to_csv(*runs: Run) -> bytes:
    """Return the data frames of `to_frame` as CSV."""
    text: str = _frame(runs).to_csv(index=False, lineterminator="\n")
    return text.encode()


def to_json(*runs: Run) -> bytes:
    """Return the rows as a list of objects, one a line; a number that is not finite is null."""
    found = [dict(zip(COLUMNS, row, strict=True)) for run in runs for row in rows(run)]
    text = b",\n".join(map(msgspec.json.encode, found)).decode()
    return escaped(f"[\n{text}\n]\n" if found else "[]\n").encode()


def to_parquet(*runs: Run) -> bytes:
    """Return the data frames of `to_frame` as a Parquet file; needs pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(_frame(runs), preserve_index=False)
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, "writer": PARQUET_WRITER}), sink)
    return sink.getvalue()


def _frame(runs: tuple[Run, ...]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat([to_frame(run) for run in runs], ignore_index=True)
