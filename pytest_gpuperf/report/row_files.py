"""The rows of runs as CSV, JSON or Parquet, in pieces: a large run has millions of them."""

from __future__ import annotations

import csv
import io
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.report.forms.as_json import escaped
from pytest_gpuperf.report.frame import COLUMNS, frame_of, rows
from pytest_gpuperf.report.own_files import PARQUET_WRITER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_gpuperf.records import Run

RUN_COLUMNS = ("run", "date", "gpu", "commit", "dirty")
ROWS_AT_ONCE = 2**15
"""Number of rows in a piece."""


def csv_pieces(*runs: Run) -> Iterator[bytes]:
    """Yield the rows as CSV, as pandas writes the data frame of `to_frame`."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow((*COLUMNS, *RUN_COLUMNS))
    found = _rows(runs, lambda date: "" if date is None else str(date))
    while True:
        yield stream.getvalue().encode()
        stream.seek(0)
        stream.truncate()
        some = list(islice(found, ROWS_AT_ONCE))
        if not some:
            return
        writer.writerows(some)


def json_pieces(*runs: Run) -> Iterator[bytes]:
    """Yield the rows as a list of objects, one a line; a number that is not finite is null."""
    names = (*COLUMNS, *RUN_COLUMNS)
    found = _rows(runs, lambda date: None if date is None else date.isoformat().replace("+00:00", "Z"))
    begin = "[\n"
    while some := list(islice(found, ROWS_AT_ONCE)):
        lines = (msgspec.json.encode(dict(zip(names, row, strict=True))).decode() for row in some)
        yield escaped(begin + ",\n".join(lines)).encode()
        begin = ",\n"
    yield b"[]\n" if begin == "[\n" else b"\n]\n"


def parquet_pieces(*runs: Run) -> Iterator[bytes]:
    """Yield the data frame of `to_frame` as a Parquet file; needs pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = _Sink()
    first = rows(runs[0])
    table = pa.Table.from_pandas(frame_of(islice(first, ROWS_AT_ONCE), runs[0]), preserve_index=False)
    table = table.replace_schema_metadata({**table.schema.metadata, "writer": PARQUET_WRITER})
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), table.schema) as writer:
        writer.write_table(table)
        for run, found in ((runs[0], first), *((run, rows(run)) for run in runs[1:])):
            while some := list(islice(found, ROWS_AT_ONCE)):
                yield from sink.taken()
                frame = frame_of(iter(some), run)
                writer.write_table(pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False))
    yield from sink.taken()


class _Sink(io.RawIOBase):
    """A file that only keeps what nobody has taken yet."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Keep a piece."""
        self._pieces.append(bytes(data))
        return len(data)

    def taken(self) -> list[bytes]:
        """Return the pieces since the last call."""
        pieces, self._pieces = self._pieces, []
        return pieces


def _rows(
    runs: Iterable[Run], show_date: Callable[[datetime | None], str | None]
) -> Iterator[tuple[object, ...]]:
    for run in runs:
        constant = _of_run(run, show_date(_date(run)))
        yield from ((*row, *constant) for row in rows(run))


def _of_run(run: Run, date: str | None) -> tuple[object, ...]:
    environment = run.environment
    return run.id, date, environment.gpu.name, environment.commit, environment.dirty


def _date(run: Run) -> datetime | None:
    try:
        # Python 3.10 does not read the Z.
        found = datetime.fromisoformat(run.started_at.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
