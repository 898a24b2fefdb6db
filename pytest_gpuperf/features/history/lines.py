"""Files of the history: a line of JSON for each test and run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history.record import HISTORY_SCHEMA, HistoryLine
from pytest_gpuperf.records.decoding import decode_versioned
from pytest_gpuperf.records.plausible import in_time, refuse_first
from pytest_gpuperf.records.runs import SAFE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable


class Lines(NamedTuple):
    """Content of a file."""

    lines: dict[bytes, HistoryLine]
    """Text and content of each line, sorted by date."""
    torn: bytes
    """Rest of a line that a killed writer left at the end of the file; else empty."""


_DECODER = msgspec.json.Decoder(HistoryLine)


def encode_line(line: HistoryLine) -> bytes:
    """Return a line as JSON, without a newline."""
    return msgspec.json.encode(line)


def encode_file(texts: Iterable[bytes]) -> bytes:
    """Return a file of lines."""
    return b"".join(text + b"\n" for text in texts)


def decode_file(data: bytes, shown: str, place: tuple[str, str]) -> Lines:
    """Read a file of lines.

    Args:
        data: Content of the file.
        shown: Name of the file in an error.
        place: GPU and suite that the file is for.

    Raises:
        GpuperfError: A line is broken, of a newer version, impossible, or of another file. The last one may
            be torn.
    """
    whole, _, rest = data.rpartition(b"\n")
    texts = whole.split(b"\n") if whole else []
    found = {
        text: _decode(text, f"{shown}, line {at}", place) for at, text in enumerate(texts, 1) if text.strip()
    }
    torn = b""
    if rest.strip():
        # A killed writer may also have left out the newline only.
        if _is_whole(rest):
            found[rest] = _decode(rest, f"{shown}, line {len(texts) + 1}", place)
        else:
            torn = rest
    return Lines(in_order(found), torn)


def in_order(lines: dict[bytes, HistoryLine]) -> dict[bytes, HistoryLine]:
    """Return lines by date, those of one key once."""
    items = sorted(lines.items(), key=lambda item: (item[1].date, item[1].key, item[0]))
    by_key: dict[tuple[str, str, str, str], tuple[bytes, HistoryLine]] = {}
    for text, line in items:
        by_key.setdefault(line.key, (text, line))
    return dict(by_key.values())


def _is_whole(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


def _decode(text: bytes, shown: str, place: tuple[str, str]) -> HistoryLine:
    next_step = "remove the line, or type `git restore` for the file if it is committed"
    try:
        line = _DECODER.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        line = None
    if line is None or line.schema > HISTORY_SCHEMA:
        line = decode_versioned(text, _DECODER, schema=HISTORY_SCHEMA, shown=shown, next_step=next_step)
    for what, name in (("run id", line.run), ("GPU", line.gpu)):
        if not SAFE_NAME.fullmatch(name):
            raise GpuperfError(
                f"{shown} has the {what} {name[:100]!r}",
                expected="at most 100 letters, digits, '-', '_' and '.'",
                next_step=next_step,
            )
    try:
        own = "/".join(line.place)
    except GpuperfError as error:
        raise GpuperfError(f"{shown}: {error.found}", expected=error.expected, next_step=next_step) from None
    if own != "/".join(place):
        raise GpuperfError(f"{shown} is of {own}", expected="/".join(place), next_step=next_step)
    model = line.clock_model
    reference_mhz = model.reference_mhz if model else 0.0
    misfits = in_time(line.time_us, line.normalised_us, line.sm_clock_mhz, model, reference_mhz)
    refuse_first(misfits, shown, next_step)
    return line
