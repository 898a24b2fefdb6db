"""Files with values that cannot be judged are refused, with their place."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from present import present
from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.times import Origin, screen
from pytest_gpuperf.records import Measurement, OtherTime
from pytest_gpuperf.records.run_store import encode_run, load_run
from pytest_gpuperf.statistics.decision import trimmed_mean
from run_builders import NODEID, one_test, record, run, timing
from whole_run import MODEL, NEW

if TYPE_CHECKING:
    from pathlib import Path

Edit = tuple[str, Any]
"""Place below `tests.<id>.measurements.main` and its new value."""

TIMES = [0, math.nan, 1e-320, "fast"]
OF_A_RUN: list[Edit] = [
    *(("timing.time_us", value) for value in TIMES),
    ("timing.other", {"time_us": 1e13}),
    ("timing.ranks", {"ranks": []}),
    ("timing.blocks_mhz.3", 1e9),
    ("timing.clock_model", {"cycles": 0, "fixed_us": 0, "reference_mhz": 1500}),
    ("profile.combined.instructions", 1e301),
    ("settlement.against.raw_log_ratios", [0.0]),
    ("settlement.how", "by hand"),
]
SESSION = {
    "run": "a",
    "time_us": 5.3,
    "spread_pct": 0.1,
    "sm_clock_mhz": 1500.0,
    "normalised_us": 5.3,
    "clock_model": msgspec.to_builtins(MODEL),
}
OF_A_BASELINE: list[Edit] = [
    *(("time.sessions.0.time_us", value) for value in TIMES),
    ("time.sessions", []),
    ("time.sessions", [SESSION, SESSION]),
    *(("counters.instructions", value) for value in (math.nan, 10**400)),
]


def baseline() -> dict[str, Any]:
    values = {
        "time": {"mode": "hot", "reference_mhz": 1500.0, "sessions": [SESSION, {**SESSION, "run": "b"}]},
        "counters": {"registers_per_thread": 32, "instructions": 100},
        "trace": {"launches": 3, "copies": 0, "synchronizations": 0},
    }
    return {
        "schema": 1,
        "gpu": {"name": "NVIDIA H200", "slug": "nvidia-h200"},
        "runs": {"a": {"date": "2026-11-20T17:30:12Z"}},
        "tests": {NODEID: {"measurements": {"main": values}}},
    }


def edited(part: Any, place: str, value: Any) -> None:
    *path, last = (int(key) if key.isdigit() else key for key in place.split("."))
    for key in path:
        part = part[key]
    part[last] = value


TWICE = encode_run(one_test()).splitlines()[1] + b",\n"


def load_run_of(folder: Path, data: bytes) -> None:
    (folder / "run.json").write_bytes(data)
    load_run(folder / "run.json")


def load_baseline_of(folder: Path, data: bytes) -> None:
    store = BaselineStore(folder / "baselines")
    path = store.path("nvidia-h200", "test_square")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    store.load("nvidia-h200", "test_square")


@pytest.mark.parametrize("words", [False, True])  # a run file may spell what JSON has no number for
@pytest.mark.parametrize(("place", "value"), OF_A_RUN)
def test_edited_run_is_refused_with_its_place(tmp_path: Path, place: str, value: Any, words: bool) -> None:
    document = json.loads(encode_run(NEW))
    number = isinstance(value, float) and not math.isfinite(value)
    edited(document["tests"][0]["measurements"]["main"], place, str(value) if words and number else value)
    with pytest.raises(GpuperfError, match=r"^run\.json|/run\.json ") as caught:
        load_run_of(tmp_path, json.dumps(document).encode())
    if words or not number:
        field = place.split(".")[1]
        assert any(one in str(caught.value) for one in (field, "timing", "[...]"))
    assert "measure again with `pytest --gpuperf`" in caught.value.next_step


@pytest.mark.parametrize(("place", "value"), OF_A_BASELINE)
def test_edited_baseline_is_refused_with_its_place(tmp_path: Path, place: str, value: Any) -> None:
    document = json.loads(json.dumps(baseline()).encode())
    edited(document["tests"][NODEID]["measurements"]["main"], place, value)
    with pytest.raises(GpuperfError, match=r"baselines/nvidia-h200/test_square\.json ") as caught:
        load_baseline_of(tmp_path, json.dumps(document).encode())
    assert any(place in str(caught.value) for place in (NODEID, "invalid character (byte "))
    assert "git restore " in caught.value.next_step


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (encode_run(one_test()).replace(b'"tests":[\n', b'"tests":[\n' + TWICE), "a test has two records"),
        (encode_run(run(started_at="yesterday")), r"at `\$.started_at`"),
        (encode_run(run(started_at="0001-01-01T00:00:00Z")), r"at `\$.started_at`"),
    ],
)
def test_run_that_contradicts_itself_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(GpuperfError, match=said):
        load_run_of(tmp_path, data)


@pytest.mark.parametrize(
    "changes",
    [
        {"time_us": 53.0},  # scaled by hand, to see a verdict
        {"mode": "cold", "blocks_us": (11.0, -0.4)},
        {"mode": "cold", "source": "cupti", "other": OtherTime(time_us=-0.1)},
        {"blocks_us": (5.3, 5.3), "blocks_mhz": (1500.0, 0.0), "clock_model": MODEL},
    ],
)
def test_unusual_but_possible_run_is_read(tmp_path: Path, changes: dict[str, Any]) -> None:
    measured = Measurement(timing=msgspec.structs.replace(timing(), **changes))
    load_run_of(tmp_path, encode_run(run(record(main=measured))))


def test_run_with_a_swinging_clock_makes_a_baseline_that_is_read(tmp_path: Path) -> None:
    clocks = (200.0,) * 4 + (1980.0,) * 6
    blocks = tuple(MODEL.time_us(mhz) for mhz in clocks)
    swinging = msgspec.structs.replace(
        timing(trimmed_mean(blocks)), blocks_us=blocks, blocks_mhz=clocks, clock_model=MODEL
    )
    load_run_of(tmp_path, encode_run(run(record(main=Measurement(timing=swinging)))))
    store = BaselineStore(tmp_path / "baselines")
    accept(run(record(main=Measurement(timing=swinging))), store, "all", 5.0)
    loaded = present(store.load("nvidia-h200", "test_square"))
    assert loaded.times[0].sessions[0].normalised_us == MODEL.time_us(MODEL.reference_mhz)


def test_blocks_below_zero_at_the_clock_of_a_baseline_are_judged_as_measured(tmp_path: Path) -> None:
    load_baseline_of(tmp_path, json.dumps(baseline()).encode())
    known = present(BaselineStore(tmp_path / "baselines").load("nvidia-h200", "test_square"))
    noisy = msgspec.structs.replace(timing(5.3), blocks_us=(51.6, -41.0), blocks_mhz=(1000.0, 2000.0))
    time = present(known.tests[NODEID].measurements["main"].time)
    assert present(screen(noisy, time, Origin(runs=known.runs))).at_mhz == 0.0
