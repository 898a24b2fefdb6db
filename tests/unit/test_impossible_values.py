"""Files with numbers that no GPU can have measured, or that contradict each other."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import msgspec
import pytest

from pytest_gpuperf import metrics
from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.baseline.store import BaselineStore, encode_baseline
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.gate import Gate
from pytest_gpuperf.records import (
    AgainstTiming,
    ClockModel,
    Conditions,
    Correctness,
    KernelProfile,
    Measurement,
    Profile,
    Run,
    TestRecord,
    Trace,
    WarmUp,
)
from pytest_gpuperf.records.baseline import Baseline
from pytest_gpuperf.records.counter_ranges import counter_range
from pytest_gpuperf.records.runs import encode_run, load_run, recordings
from pytest_gpuperf.statistics.estimate import trimmed_mean
from run_builders import NODEID, one_test, record, run, timing

if TYPE_CHECKING:
    from collections.abc import Iterator

BASELINES = Path(__file__).parents[2] / "baselines"
MODEL = ClockModel(cycles=3000.0, fixed_us=3.3, reference_mhz=1500.0, share_error=0.01)
"""A call that takes 5.3 µs at its reference clock."""
SHOWN = re.escape(NODEID)


def encoded(measured: Measurement) -> bytes:
    return encode_run(run(record(main=measured)))


def timed(**changes: object) -> bytes:
    """Return an encoded run with one timing that has these fields."""
    return encoded(Measurement(timing=msgspec.structs.replace(timing(), **changes)))


def model(**changes: float) -> ClockModel:
    return msgspec.structs.replace(MODEL, **changes)


def at_clocks(*mhz: float, **changes: object) -> bytes:
    """Return an encoded run with one timing that has a block at each clock."""
    return timed(blocks_mhz=mhz, **{"blocks_us": (5.3,) * len(mhz), **changes})


def counted(**counters: Any) -> bytes:
    return encode_run(one_test(counters=counters))


def against(**changes: Any) -> bytes:
    ratios: dict[str, Any] = {"log_ratios": (0.0, 0.1), "new_first": (False, True), "old_us": 5, "new_us": 5}
    return encoded(Measurement(against=AgainstTiming(ref="main", commit="c0ffee1", **{**ratios, **changes})))


def kernel(**changes: Any) -> bytes:
    return encoded(Measurement(profile=Profile(kernels=(KernelProfile(name="k", **changes),))))


def correctness(**changes: Any) -> bytes:
    return encoded(Measurement(correctness=Correctness(passed=True, **changes)))


def load(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(data)
    load_run(path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (timed(time_us=0.0), "has 0.0 as timing.time_us of"),
        (timed(time_us=math.nan), 'has "nan" as timing.time_us of'),
        (timed(time_us=1e308), "expected a number from 1e-06 to 1e"),
        (timed(time_us=53.0), "has 53.0 as timing.time_us of .* about 5.3: by blocks_us"),
        (timed(source="cupti", cupti_us=50.0), "has 50.0 as timing.cupti_us of .*; expected about 5.3"),
        (timed(spread_pct=math.inf), 'has "inf" as timing.spread_pct'),
        (timed(spread_pct=-1.0), "has -1.0 as timing.spread_pct"),
        (timed(blocks_us=(1.0, math.nan)), r'has "nan" as timing.blocks_us\[1\]'),
        (timed(bytes=-1), "has -1 as timing.bytes"),
        (timed(flops=10**30), "has 10+ as timing.flops"),
        (timed(calls_per_block=0), "has 0 as timing.calls_per_block"),
        (timed(warm_up=WarmUp(seconds=math.nan, launches=1, steady=True)), '"nan" as timing.warm_up.seconds'),
        (timed(conditions=Conditions(power_w=-math.inf)), 'has "-inf" as timing.conditions.power_w'),
        (timed(conditions=Conditions(sm_clock_mhz=10**6)), "as timing.conditions.sm_clock_mhz"),
        (timed(clock_model=model(cycles=math.nan)), "as timing.clock_model.cycles"),
        (timed(clock_model=model(fixed_us=-5.0)), "has -5.0 as timing.clock_model.fixed_us"),
        (timed(clock_model=model(share_error=1.0)), "has 1.0 as timing.clock_model.share_error"),
        (timed(clock_model=model(reference_mhz=0.0)), "has 0.0 as timing.clock_model.reference_mhz"),
        (timed(clock_model=model(reference_mhz=1e-320)), "as timing.clock_model.reference_mhz"),
        (timed(clock_model=model(reference_mhz=1.5e6)), "1500000.0 as timing.clock_model.reference_mhz"),
        (timed(clock_model=model(cycles=0.0, fixed_us=0.0)), "cycles and fixed_us that make a time above"),
        (at_clocks(1500.0, clock_model=model(fixed_us=3300.0)), "make about 5.3 µs at 1500 MHz"),
        (timed(normalised_us=5.3), "has 5.3 as timing.normalised_us of .*; expected about 0"),
        (at_clocks(1500.0, clock_model=MODEL, normalised_us=5300.0), "normalised_us .*; expected about 5.3"),
        (at_clocks(1500.0, 1e300), r"has 1e\+300 as timing.blocks_mhz\[1\]"),
        (at_clocks(1500.0, 0.001), r"has 0.001 as timing.blocks_mhz\[1\]"),
        (at_clocks(1500.0, blocks_us=(5.3, 5.3)), "expected 2 clocks, one for each block"),
        (
            # At one clock, the block below 0 is the longer one.
            at_clocks(
                1000.0, 2000.0, blocks_us=(11.6, -1.0), clock_model=model(cycles=7950, fixed_us=0.0)
            ).replace(b'"blocks_us":[11.6,-1.0]', b'"blocks_us":[41.6,-31.0]'),
            "expected blocks that take a time above 0",
        ),
        (counted(sm_throughput=1e12), "has 1000000000000.0 as profile.combined.sm_throughput"),
        (counted(sm_throughput=math.nan), 'has "nan" as profile.combined.sm_throughput'),
        (counted(sm__throughput_x__y=math.nan, occupancy_limiter=3), "combined.occupancy_limiter .*a word"),
        (counted(**{"sm__throughput.avg.pct_of_peak_sustained_elapsed": 1e12}), "from 0 to 1,000 %"),
        (counted(instructions=-3.0), "has -3.0 as profile.combined.instructions"),
        (counted(registers_per_thread=16.5), "has 16.5 .*; expected a whole number from 0 to 255"),
        (counted(registers_per_thread=1e30), "as profile.combined.registers_per_thread"),
        (counted(theoretical_occupancy=-1), "expected a number from 0 to 100 %"),
        (kernel(grid=(-1, 1, 1)), r"has -1 as profile.kernels\[0\].grid\[0\]"),
        (kernel(block=(1024, 2, 1)), "expected a block of at most 1024 threads"),
        (kernel(metrics={"waves": -1.0}), r"as profile.kernels\[0\].metrics.waves"),
        (encoded(Measurement(trace=Trace(copies=10**400))), "as trace.copies .*; expected a whole number"),
        (encoded(Measurement(trace=Trace(gpu_busy_pct=1e12))), "as trace.gpu_busy_pct"),
        (correctness(rtol=-1.0), "has -1.0 as correctness.rtol"),
        (correctness(atol=math.inf), 'has "inf" as correctness.atol'),
        (correctness(max_abs_diff=-1.0), "has -1.0 as correctness.max_abs_diff"),
        (against(log_ratios=(1e12, 0.1)), r"as against.log_ratios\[0\]"),
        (against(log_ratios=(5.0, 5.1)), "expected logarithms about that of new_us / old_us, 0"),
        (against(raw_log_ratios=(0.0,)), "expected 2 values, one of each restart"),
        (against(new_first=(False,)), "expected 2 values, one of each restart"),
        (against(new_us=0.0), "has 0.0 as against.new_us"),
        (against(old_mhz=0.5), "has 0.5 as against.old_mhz"),
        (against(comparisons=-1), "has -1 as against.comparisons"),
        (
            encode_run(run(TestRecord(nodeid="t.py::t", measurements={}, tolerance_pct=math.inf))),
            'has "inf" as tolerance_pct of t.py::t',
        ),
        (encode_run(run(record(), record())), "as nodeid; expected one record of each test"),
        (encode_run(run(started_at="yesterday")), 'has "yesterday" as started_at; expected a date'),
        (encode_run(run(started_at="0001-01-01T00:00:00Z")), "expected a date between 1970 and 2100"),
        (encode_run(run()).replace(b'"schema":1', b'"schema":-7'), "has -7 as schema"),
    ],
)
def test_impossible_run_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(GpuperfError, match=said) as caught:
        load(tmp_path, data)
    assert "run.json" in caught.value.found
    assert "measure again with `pytest --gpuperf`" in caught.value.next_step


def test_message_names_the_test_and_the_label(tmp_path: Path) -> None:
    broken = run(record(), record("t.py::t[0]", backward=Measurement(timing=timing(-1.0))))
    with pytest.raises(GpuperfError) as caught:
        load(tmp_path, encode_run(broken))
    assert caught.value.found.endswith("run.json has -1.0 as timing.time_us of t.py::t[0] (backward)")


@pytest.mark.parametrize(
    "data",
    [
        timed(time_us=8.0),
        at_clocks(1500.0, blocks_us=(8.0,), time_us=8.0, clock_model=MODEL, normalised_us=5.3, events_us=5.3),
        timed(mode="cold", blocks_us=(11.0, -0.4)),
        timed(mode="cold", source="cupti", cupti_us=5.3, events_us=-0.1),
        at_clocks(1500.0, 1500.0, mode="cold", blocks_us=(11.0, -0.4), clock_model=MODEL),
        at_clocks(1500.0, 0.0, clock_model=MODEL),
        counted(l1_throughput=154.4, l2_hit_rate=100.3),
        correctness(max_abs_diff=math.nan, max_rel_diff=math.inf),
        encode_run(run(started_at="2026-11-20T17:30:12")),
    ],
    ids=[
        "time scaled by hand",
        "blocks scaled by hand",
        "cold block below 0",
        "noise by events",
        "cold at a clock",
        "unknown clock",
        "above a peak",
        "NaN",
        "naive",
    ],
)
def test_unusual_but_possible_run_is_read(tmp_path: Path, data: bytes) -> None:
    load(tmp_path, data)


def without_range(kind: Any, name: str = "") -> Iterator[str]:
    """Yield the fields of a record, and of the records in it, that hold numbers of any size."""
    if kind in (int, float):
        yield name
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not ClockModel:
        for field in msgspec.structs.fields(kind):
            if field.name == "others":  # of the same type
                continue
            yield from without_range(field.type, f"{kind.__name__}.{field.name}")
    elif get_origin(kind) is not Annotated or not any(meta.description for meta in get_args(kind)[1:]):
        for part in get_args(kind):
            yield from without_range(part, name)


@pytest.mark.parametrize("kind", [Run, Baseline])
def test_each_number_of_a_file_has_a_range(kind: type) -> None:
    # NaN and infinity are true differences. All other fields take a type of `records/quantities.py`.
    differences = {"Correctness.max_abs_diff", "Correctness.max_rel_diff"}
    assert set(without_range(kind)) <= differences


@pytest.mark.parametrize("folder", [path.name for path in BASELINES.iterdir() if path.is_dir()])
def test_committed_files_are_read(folder: str) -> None:
    store = BaselineStore(BASELINES)
    assert all(store.load(folder, suite) for suite in store.suites(folder))
    for path in recordings(BASELINES):
        if path.parent.parent.name == folder:
            load_run(path)


def test_each_metric_has_the_range_of_its_unit() -> None:
    percentages = {name for name, metric in metrics.METRICS.items() if metric.unit == "%"}
    assert percentages == {name for name in metrics.METRICS if counter_range(name).unit == "%"}
    facts = {"register", "thread", "block", "byte", "bit", "SM"}
    whole = {
        name
        for name, metric in metrics.METRICS.items()
        if metric.unit in facts and metric.tier is metrics.Tier.EXACT
    }
    assert whole == {name for name in metrics.METRICS if counter_range(name).whole} - {"kernels"}


def session(run_id: str, **changes: Any) -> dict[str, Any]:
    values = {"sm_clock_mhz": 1500.0, "normalised_us": 5.3, "clock_model": msgspec.to_builtins(MODEL)}
    return {"run": run_id, "time_us": 5.3, "spread_pct": 0.1, **values, **changes}


def baseline(
    *sessions: dict[str, Any], counters: dict[str, Any] | None = None, **time: Any
) -> dict[str, Any]:
    """Return the content of a baseline file with one test."""
    stored = list(sessions) or [session("a"), session("b")]
    values = {
        "time": {"mode": "hot", "reference_mhz": 1500.0, "sessions": stored, **time},
        "counters": {"registers_per_thread": 32, "instructions": 100} | (counters or {}),
        "counters_range": {"instructions": [99, 101]},
        "trace": {"launches": 3, "copies": 0, "synchronizations": 0},
    }
    return {
        "schema": 1,
        "gpu": {"name": "NVIDIA H200", "slug": "nvidia-h200"},
        "runs": {"a": {"date": "2026-11-20T17:30:12Z"}},
        "tests": {NODEID: {"measurements": {"main": values}}},
    }


def stored(folder: Path, content: dict[str, Any] | bytes) -> BaselineStore:
    store = BaselineStore(folder / "baselines")
    path = store.path("nvidia-h200", "test_square")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else encode_baseline(content))
    return store


def edited(old: str, new: str) -> bytes:
    text = json.dumps(baseline())
    assert old in text
    return text.replace(old, new, 1).encode()


ZEROS = {"cycles": 0, "fixed_us": 0, "reference_mhz": 0}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (baseline(session("a", sm_clock_mhz=-1)), r"has -1 as time.sessions\[0\].sm_clock_mhz of suites/"),
        (baseline(session("a", sm_clock_mhz=0.001)), "expected a number from 1 to 10,000 MHz, or 0"),
        (baseline(session("a", sm_clock_mhz=0)), "expected about 0: time_us at reference_mhz"),
        (
            baseline(session("a", normalised_us=5300.0)),
            "has 5300.0 as .*normalised_us .*; expected about 5.3",
        ),
        (baseline(session("a", normalised_us=8.0)), "has 8.0 as .*normalised_us .*; expected about 5.3"),
        (baseline(session("a", normalised_us=-5.3)), r"has -5.3 as time.sessions\[0\].normalised_us"),
        (baseline(session("a", normalised_us=1e308)), r"has 1e\+308 as time.sessions\[0\].normalised_us"),
        (baseline(session("a", normalised_us=1e-320)), "normalised_us .*; expected about 5.3"),
        (baseline(session("a", clock_model=None)), "normalised_us .*; expected about 0"),
        (baseline(session("a", clock_model=ZEROS)), "has 0.0 as .*clock_model.reference_mhz"),
        (baseline(session("a", clock_model={**ZEROS, "reference_mhz": 1500})), "that make a time above 0"),
        (
            baseline(session("a", clock_model={**ZEROS, "cycles": 8e6, "reference_mhz": 1500})),
            "make about 5.3",
        ),
        (
            baseline(session("a", clock_model=msgspec.to_builtins(model(share_error=1e12)))),
            "has 1000000000000.0 as .*clock_model.share_error",
        ),
        (baseline(session("a", time_us=10.6)), "has 5.3 as .*normalised_us .*; expected about 10.6"),
        (
            baseline(
                {"run": "a", "time_us": 5.3}, {"run": "b", "time_us": 5.2}, {"run": "c", "time_us": 5300}
            ),
            r"has 5300.0 as time.sessions\[2\].time_us .*; expected about 5.3 µs, as in the other sessions",
        ),
        (baseline(session("a", time_us="5")), 'has "5" as .*time_us .*expected a number from 1e-06 to 1e'),
        (baseline(session("a", spread_pct=-1)), "as .*spread_pct"),
        (
            baseline(session("a"), session("a")),
            r'has "a" as time.sessions\[1\].run .* one session of each run',
        ),
        (baseline(reference_mhz=0), "expected about 0: time_us at reference_mhz"),
        (baseline(reference_mhz=1e-320), "has 1e-320 as time.reference_mhz"),
        (baseline(reference_mhz=1.5e6), "has 1500000.0 as time.reference_mhz"),
        (baseline(reference_mhz=9000.0), "normalised_us .*; expected about 3.6"),
        (baseline(pinned={"mode": "hot", "sessions": [session("a")]}), r"time.pinned.sessions\[0\].normal"),
        (
            baseline(pinned={"mode": "hot", "date": "yesterday", "sessions": [{"run": "a", "time_us": 1}]}),
            'has "yesterday" as time.pinned.date',
        ),
        (baseline(counters={"registers_per_thread": 1e30}), "a whole number from 0 to 255"),
        (baseline(counters={"theoretical_occupancy": -1}), "has -1.0 as counters.theoretical_occupancy"),
        (baseline(counters={"instructions": 10**400}), "has 10+ … as counters.instructions"),
        (baseline(counters={"instructions": 200}), "expected a range with the value 200"),
        (edited("[99, 101]", "[0, 1e30]"), "has 1e.30 as counters_range.instructions"),
        (edited("[99, 101]", "[101, 99]"), "as counters_range.instructions"),
        (edited('"copies": 0', f'"copies": 1{"0" * 400}'), "as trace.copies of"),
        (edited('"copies": 0', f'"copies": 1{"0" * 5000}'), "not valid JSON|as trace.copies of"),
        (edited('"time_us": 5.3', '"time_us": 1e400'), r"as time.sessions\[0\].time_us"),
        (edited('"2026-11-20T17:30:12Z"', '"yesterday"'), 'has "yesterday" as runs.a.date; expected a date'),
        (edited('"schema": 1', '"schema": -7'), "has -7 as schema; expected a whole number from 1"),
    ],
)
def test_impossible_baseline_is_refused(tmp_path: Path, content: dict[str, Any] | bytes, said: str) -> None:
    with pytest.raises(GpuperfError, match=said) as caught:
        stored(tmp_path, content).load("nvidia-h200", "test_square")
    assert "baselines/nvidia-h200/test_square.json" in caught.value.found
    assert "git restore " in caught.value.next_step


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            '"time_us": 5.3',
            '"time_us": 5.3, "time_us": 9',
            rf"'time_us' twice in time.sessions\[0\] of {SHOWN}",
        ),
        ('"schema": 1', '"schema": 1, "schema": 1', "'schema' twice; expected each key once"),
        (f'"{NODEID}": ', f'"{NODEID}": {{}}, "{NODEID}": ', f"'{SHOWN}' twice in tests"),
        ('"gpu": {', '"mine": [1, {"x": 1, "x": 2}], "gpu": {', r"'x' twice in mine\[1\]"),
    ],
)
def test_key_that_occurs_twice_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(GpuperfError, match=f"has the key {said}"):
        stored(tmp_path, edited(old, new)).load("nvidia-h200", "test_square")


def test_run_with_a_swinging_clock_makes_a_baseline_that_is_read(tmp_path: Path) -> None:
    clocks = (200.0,) * 4 + (1980.0,) * 6
    blocks = tuple(MODEL.time_us(mhz) for mhz in clocks)
    swinging = msgspec.structs.replace(
        timing(trimmed_mean(blocks)), blocks_us=blocks, blocks_mhz=clocks, clock_model=MODEL
    )
    load(tmp_path, encoded(Measurement(timing=swinging)))
    store = BaselineStore(tmp_path / "baselines")
    accept(run(record(main=Measurement(timing=swinging))), store, "all", 5.0, environ={})
    loaded = store.load("nvidia-h200", "test_square")
    assert loaded is not None
    assert loaded.times[0].sessions[0].normalised_us == 0.0


def test_blocks_below_zero_at_the_clock_of_a_baseline_are_judged_as_measured(tmp_path: Path) -> None:
    store = stored(tmp_path, baseline())
    known = store.load("nvidia-h200", "test_square")
    assert known is not None
    noisy = msgspec.structs.replace(timing(5.3), blocks_us=(51.6, -41.0), blocks_mhz=(1000.0, 2000.0))
    compared = Gate([known], card="", comparisons=1).compare((NODEID, "main"), noisy)
    assert compared is not None
    assert compared.at_mhz == 0.0


def test_valid_baseline_is_read(tmp_path: Path) -> None:
    assert stored(tmp_path, baseline()).load("nvidia-h200", "test_square")
