"""The benchmark of what the place of memory does to a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from benchmarks.placement import SCHEMA, Results, Times, read, source, spread_table, spreads_pct
from benchmarks.results_file import encode
from pytest_gpuperf.errors import GpuperfError
from run_builders import run

if TYPE_CHECKING:
    from pathlib import Path

# Two sets that differ by 2 µs, timed twice each, which differ by 0.2 µs.
FOUND = ((9.0, 9.2), (11.0, 11.2))


def results(times: Times) -> Results:
    return Results(
        schema=SCHEMA,
        date="2026-11-22T10:00:00Z",
        environment=run().environment,
        kernels={"square 64²": {"hot": times, "cold": times}},
    )


def test_what_differs_on_the_same_tensors_is_not_the_memorys() -> None:
    same, memory = spreads_pct(FOUND)
    assert same == pytest.approx(100 * 0.02**0.5 / 10.1)
    assert memory == pytest.approx(100 * (2 - 0.02 / 2) ** 0.5 / 10.1)
    # The sets differ by no more than repetitions do.
    assert spreads_pct(((9.0, 11.0), (11.0, 9.2)))[1] == 0


def test_the_table_has_both_spreads_of_each_condition() -> None:
    row = spread_table(results(FOUND)).splitlines()[-1]
    assert row == "| square 64² | 10.10 | 1.40 | 13.97 | 10.10 | 1.40 | 13.97 |"
    assert source(results(FOUND)).endswith(", 2026-11-22.\n")


def test_results_come_back_from_their_file_and_newer_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    found = results(FOUND)
    path.write_bytes(encode(found))
    assert read(path) == found
    path.write_bytes(encode(msgspec.structs.replace(found, schema=SCHEMA + 1)))
    with pytest.raises(GpuperfError, match="newer"):
        read(path)
