"""Clock models in baselines and in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pytest_gpuperf.baseline.sessions import merged_time
from pytest_gpuperf.features.history.run_lines import lines_of
from pytest_gpuperf.records import ClockModel, Measurement
from run_builders import record, run, timing

if TYPE_CHECKING:
    from pytest_gpuperf.records import Timing


MODEL = ClockModel(cycles=5 * 1980 * 0.9, fixed_us=0.5, reference_mhz=1980.0, share_error=0.01)


def timed(mhz: float, *, stored: bool) -> Timing:
    return replace(
        timing(5.0),
        blocks_us=(5.0,) * 20,
        blocks_mhz=(mhz,) * 20,
        clock_model=replace(MODEL, stored=stored),
        normalised_us=5.0,
    )


@pytest.mark.parametrize("stored", [False, True])
def test_only_a_fitted_model_is_kept_in_baseline_and_history(*, stored: bool) -> None:
    found = timed(1980.0, stored=stored)
    of_run = run(record("t.py::t", main=Measurement(timing=found)))
    (session,) = merged_time(None, of_run.id, found, {}).sessions
    (line,) = lines_of(of_run, {}).lines
    assert (session.clock_model is not None, line.clock_model is not None) == (not stored, not stored)
    assert session.sm_clock_mhz == line.sm_clock_mhz == 1980
