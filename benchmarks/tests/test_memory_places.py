"""The comparison of places in memory, without a GPU."""

from __future__ import annotations

import pytest

from benchmarks.markdown import us
from benchmarks.memory_places import SCHEMA, Results, Sample, report, source, spreads_pct
from run_builders import run


def results(*processes: tuple[Sample, ...]) -> Results:
    return Results(
        schema=SCHEMA, date="2026-11-27T00:00:00+00:00", environment=run().environment, processes=processes
    )


def test_spread_is_that_between_processes() -> None:
    found = results((Sample("abs", 99.0, 99.9),), (Sample("abs", 101.0, 100.1),))
    assert spreads_pct(found)["abs"] == pytest.approx((100.0, 1.4142, 0.14142), rel=1e-4)
    assert report(found).splitlines()[-1] == f"|abs|{us(100.0)}|1.41|0.14|"
    assert source(found).startswith("2 processes; ")


def test_call_of_one_process_has_no_spread() -> None:
    assert spreads_pct(results((Sample("abs", 99.0, 99.9),))) == {}
