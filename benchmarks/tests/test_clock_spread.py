"""Tests of the benchmark of times over the SM clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from benchmarks.clock_spread import SCHEMA, STATES, Results, Spread, read, spread_pct, spread_table, summary
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import ClockModel
from run_builders import run

if TYPE_CHECKING:
    from pathlib import Path

MODEL = ClockModel(cycles=200_000, fixed_us=50, reference_mhz=1600, share_error=0.02)
PAUSE, BACK_TO_BACK, BURN = STATES


def results(model: ClockModel | None, schema: int = SCHEMA) -> Results:
    """Return a kernel of 200,000 cycles and 50 µs, and 1 % more at the clock of the burn."""
    blocks = {PAUSE: ((150.0, 2000.0),) * 3, BACK_TO_BACK: ((175.0, 1600.0),), BURN: ((212.1, 1250.0),)}
    return Results(
        schema=schema,
        date="2026-11-21T10:00:00Z",
        environment=run().environment,
        kernels={"matmul": Spread(model=model, blocks=blocks)},
    )


def test_times_are_brought_to_one_clock() -> None:
    kernel = results(MODEL).kernels["matmul"]
    assert spread_pct(kernel.times_us()) == pytest.approx(41.4)
    assert kernel.normalised_us() == pytest.approx({PAUSE: 175, BACK_TO_BACK: 175, BURN: 175 * 1.01})
    assert spread_pct(kernel.normalised_us()) == pytest.approx(1.0)


def test_table_has_both_spreads() -> None:
    row = spread_table(results(MODEL)).splitlines()[-1]
    assert row == "|matmul|150.0 @ 2000|175.0 @ 1600|212.1 @ 1250|41.4|1.00|0.71 ± 0.02|"


def test_summary_has_the_largest_spreads() -> None:
    assert "1 kernels differ by up to 41.4 % as measured, and by up to 1.00 % at one clock" in summary(
        results(MODEL)
    )


def test_kernel_without_clock_model_has_no_time_at_one_clock() -> None:
    assert spread_table(results(None)).splitlines()[-1].endswith("|41.4|—|unknown|")


def test_results_of_a_newer_schema_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(msgspec.json.encode(results(MODEL, SCHEMA + 1)))
    with pytest.raises(GpuperfError, match="newer"):
        read(path)
