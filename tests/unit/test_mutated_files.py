"""Files with one number replaced by any other: one clear error, or all readers go on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from judging import HINTS
from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.cli import main
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.gate import Gate
from pytest_gpuperf.judge.verdict import Expected, judge
from pytest_gpuperf.records import (
    AgainstTiming,
    ClockModel,
    Conditions,
    Correctness,
    FusionCandidate,
    KernelProfile,
    Measurement,
    Profile,
    Timing,
    Trace,
    TracedKernel,
    WarmUp,
)
from pytest_gpuperf.records.runs import encode_run, load_run
from pytest_gpuperf.statistics.clock_model import normalise_blocks
from pytest_gpuperf.statistics.estimate import trimmed_mean
from run_builders import record, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from pytest_gpuperf.records import Run

MODEL = ClockModel(cycles=3000.0, fixed_us=3.3, reference_mhz=1500.0, share_error=0.01)
CLOCKS = tuple(1500.0 + 5 * (at % 3) for at in range(12))
BLOCKS = tuple(MODEL.time_us(mhz) for mhz in CLOCKS)
TIMING = Timing(
    mode="hot",
    time_us=trimmed_mean(BLOCKS),
    spread_pct=0.1,
    blocks_us=BLOCKS,
    calls_per_block=10,
    events_us=trimmed_mean(BLOCKS),
    launch_gap_us=0.9,
    blocks_mhz=CLOCKS,
    clock_model=MODEL,
    normalised_us=trimmed_mean(normalise_blocks(BLOCKS, CLOCKS, MODEL)),
    bytes=1024,
    flops=512,
    warm_up=WarmUp(seconds=0.3, launches=100, steady=True),
    conditions=Conditions(sm_clock_mhz=1500, max_sm_clock_mhz=1980, memory_clock_mhz=3201, power_w=300.0),
)
COUNTERS = {"registers_per_thread": 32.0, "instructions": 1e6, "sm_throughput": 60.0, "dram__bytes.sum": 5.0}
KERNEL = TracedKernel(name="k", calls=3, total_us=3.0, mean_us=1.0, share_pct=60.0, waves=0.5)
MEASURED = Measurement(
    correctness=Correctness(passed=True, max_abs_diff=1e-6, rtol=1e-3, atol=1e-5, elements=4, mismatched=1),
    timing=TIMING,
    profile=Profile(
        kernels=(KernelProfile(name="k", grid=(8, 1, 1), block=(128, 1, 1), metrics={**COUNTERS}),),
        combined={**COUNTERS},
    ),
    trace=Trace(
        kernels=(KERNEL,),
        launches=3,
        host_launches=3,
        span_us=8.0,
        busy_us=5.0,
        gpu_time_us=5.0,
        gpu_busy_pct=62.5,
        launch_gap_us=1.0,
        copies=2,
        copy_us=2.0,
        class_shares_pct={"other": 60.0, "data_movement": 40.0},
        fusion_candidates=(
            FusionCandidate(kernels=("k", "k"), times=1, saved_launches=1, saved_us=1.0, at_most_us=2.0),
        ),
    ),
    against=AgainstTiming(
        ref="main",
        commit="c0ffee1",
        mode="hot",
        log_ratios=(0.01, 0.02, 0.015),
        raw_log_ratios=(0.01, 0.02, 0.012),
        new_first=(False, True, False),
        comparisons=2,
        old_us=5.2,
        new_us=5.3,
        old_mhz=1500.0,
        new_mhz=1500.0,
        seconds=2.0,
    ),
)
KNOWN = run(record(main=MEASURED), id="20261119-173012-3f9a", started_at="2026-11-19T17:30:12Z")
NEW = run(record(main=MEASURED))
COMMANDS = (
    "baseline diff run.json",
    "baseline status run.json",
    "compare run.json known.json",
    "export run.json --format csv",
    "explain run.json",
)

VALUES = st.sampled_from(
    [0, -1, 0.5, 1e-320, 1e12, 1e30, 1e308, 10**400, "nan", "5", None, True]
) | st.floats(allow_nan=False, allow_infinity=False)


def numbers(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each number in a JSON document."""
    if isinstance(value, (dict, list)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(part, (*place, key))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield place


def mutated(content: bytes, at: int, value: Any, factor: float) -> bytes:
    """Replace a number by a value, or multiply it if the factor is not 1."""
    document = json.loads(content)
    places = list(numbers(document))
    *path, last = places[at % len(places)]
    part = document
    for key in path:
        part = part[key]
    part[last] = value if factor == 1 else part[last] * factor
    return json.dumps(document).encode()


def read(path: Path, store: BaselineStore) -> tuple[Run | None, str]:
    """Read a run and the baseline; return the run, or the error."""
    try:
        measured = load_run(path)
        store.load("nvidia-h200", "test_square")
    except GpuperfError as error:
        return None, str(error)
    return measured, ""


def read_all(measured: Run, store: BaselineStore) -> None:
    """Judge, accept and show a run: an exception fails the test."""
    known = store.load("nvidia-h200", "test_square")
    assert known is not None
    for test in measured.tests:
        gate = Gate([known], card="GPU-1", comparisons=1)
        judge(test, measured=Expected(known.tests.get(test.nodeid), gate, 0.0, HINTS, "x.json"))
    for command in COMMANDS:
        result = CliRunner().invoke(main, command.split())
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            command,
            result.exception,
        )
    accept(measured, store, "all", 5.0, environ={})


@settings(deadline=None, max_examples=60)  # the first example imports SciPy
@given(
    st.sampled_from(["run", "baseline", "recording"]),
    st.integers(0, 200),
    VALUES,
    st.sampled_from([1, 1, -1, 1.5, 1000]),
)
def test_any_number_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, target: str, at: int, value: Any, factor: float
) -> None:
    folder = tmp_path_factory.mktemp("project")
    before = Path.cwd()
    os.chdir(folder)
    try:
        (folder / ".git").mkdir()
        store = BaselineStore(folder / "baselines")
        accept(KNOWN, store, "all", 5.0, environ={})
        (folder / "known.json").write_bytes(encode_run(KNOWN))
        baseline = store.path("nvidia-h200", "test_square")
        paths = {"run": folder / "run.json", "baseline": baseline}
        path = paths.get(target, folder / "baselines" / "nvidia-h200" / "recordings" / "known.json")
        (folder / "run.json").write_bytes(encode_run(NEW))
        content = path.read_bytes() if path.exists() else encode_run(KNOWN)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(mutated(content, at, value, factor))
        measured, error = read(path if target == "recording" else folder / "run.json", store)
        if measured is not None:
            read_all(measured, store)
        else:
            assert error.startswith(("run.json ", "baselines/nvidia-h200/"))
            assert path.name in error
            assert "git restore" in error or "newer pytest-gpuperf" in error
    finally:
        os.chdir(before)


def test_files_without_a_mutation_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.json").write_bytes(encode_run(NEW))
    (tmp_path / "known.json").write_bytes(encode_run(KNOWN))
    store = BaselineStore(tmp_path / "baselines")
    accept(KNOWN, store, "all", 5.0, environ={})
    read_all(load_run(tmp_path / "run.json"), store)
    assert {CliRunner().invoke(main, command.split()).exit_code for command in COMMANDS} == {0}
