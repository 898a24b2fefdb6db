"""Files with one number replaced by any other: one clear error, or all readers go on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import gpuperf
from judging import HINTS
from present import present
from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.times import Origin
from pytest_gpuperf.judge.verdict import Expected, judge
from pytest_gpuperf.records.run_store import encode_run, load_run
from whole_run import KNOWN, NEW

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from pytest_gpuperf.records import Run

COMMANDS = (
    "baseline accept --dry-run run.json",
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
    known = present(store.load("nvidia-h200", "test_square"))
    for test in measured.tests:
        origin = Origin("GPU-1", measured.environment.toolchain, known.runs)
        judge(test, measured=Expected(known.tests.get(test.nodeid), origin, 0.0, HINTS))
    for command in COMMANDS:
        result = gpuperf(*command.split())
        assert isinstance(result.exception, SystemExit | None), (command, result.exception)
    accept(measured, store, "all", 5.0)


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
        accept(KNOWN, store, "all", 5.0)
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
    accept(KNOWN, store, "all", 5.0)
    read_all(load_run(tmp_path / "run.json"), store)
    assert {gpuperf(*command.split()).exit_code for command in COMMANDS} == {0}
