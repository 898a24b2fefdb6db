"""Tests of sampling for the gate's benchmark, which survives failures and keeps its samples."""

from __future__ import annotations

import gzip
import math
import os
from pathlib import Path

import msgspec
import pytest

from benchmarks.gate_power.kernels import BY_HOST, IN_STEPS, KERNELS
from benchmarks.gate_power.sample import PAIRS, Sampler
from benchmarks.gate_power.samples import Began, Failed, Line, RestartSample, SessionSample, Writer, read
from gate_samples import samples
from pytest_gpuperf.errors import GpuperfError

HISTOGRAMS = [kernel.name for kernel in KERNELS if "histogram" in kernel.name]


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    """Return the lines of a session and of a restart whose sides have no histogram."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        return sampled(monkeypatch, "fake_children:session", "fake_children:take_turns", steps=2)


def sampled(
    monkeypatch: pytest.MonkeyPatch, session: str, take_turns: str, steps: int, kernels: str = ""
) -> list[Line]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    monkeypatch.setattr("benchmarks.gate_power.sample.BUDGET_S", 0.0)
    lines: list[Line] = []
    ended: list[str] = []

    def say(text: str) -> None:
        if text.endswith("left"):
            ended.append(text)

    def clock() -> float:
        """Clock that ends the time after some steps."""
        return 0.0 if len(ended) < steps else 61.0

    Sampler(lines.append, 60, say, kernels=kernels, session=session, take_turns=take_turns, clock=clock).run()
    return lines


def test_only_kernels_of_these_names_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sampled(
        monkeypatch, "fake_children:session", "fake_children:take_turns", 2, "copy 33|by the host"
    )
    restarts = {line.kernel for line in found if isinstance(line, RestartSample)}
    assert restarts == {"copy 33 MB", "copy 33 MB, cold", *BY_HOST}


def test_sessions_and_restarts_alternate(lines: list[Line]) -> None:
    kinds = [type(line) for line in lines]
    assert kinds[:4] == [Began, SessionSample, Failed, Began]
    assert {line.process for line in lines if isinstance(line, SessionSample)} == {0}
    assert {line.restart for line in lines if isinstance(line, RestartSample)} == {0}


def test_restart_compares_doses_with_none_and_itself(lines: list[Line]) -> None:
    restarts = [line for line in lines if isinstance(line, RestartSample)]
    kernels = {kernel.name for kernel in KERNELS} - {*HISTOGRAMS}
    wanted = {
        (name, *pair) for name in kernels for pair in PAIRS if name not in IN_STEPS or len({*pair}) == 1
    }
    assert sorted((line.kernel, line.old, line.new) for line in restarts) == sorted(wanted)
    assert {line.card for line in restarts} == {"GPU-1"}
    for line in restarts:
        expected = math.log((100 + line.new / 10) / (100 + line.old / 10))
        assert line.log_ratio == pytest.approx(expected, abs=1e-6)
        assert line.error == pytest.approx(0, abs=1e-6)


def test_failure_of_one_kernel_spares_the_others(lines: list[Line]) -> None:
    failed = [line for line in lines if isinstance(line, Failed)]
    pairs = [f"{kernel} {old} and {new} ‰" for kernel in HISTOGRAMS for old, new in PAIRS]
    assert {line.what for line in failed} == {"process 0, matmul", *(f"restart 0, {one}" for one in pairs)}


def test_step_that_would_end_late_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session takes 30 s of 100, a restart 20."""
    monkeypatch.setattr(Sampler, "_start", lambda _self, _number: [])
    now = 0.0
    begun = []

    def step(_self: Sampler, number: int, _children: object) -> None:
        nonlocal now
        begun.append(number)
        now += 20.0 if number % 2 else 30.0

    monkeypatch.setattr(Sampler, "_step", step)
    Sampler(lambda _: None, 100, lambda _: None, clock=lambda: now).run()
    assert begun == [0, 1, 2]


def test_sampling_stops_after_four_dead_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = sampled(monkeypatch, "fake_children:fail_at_once", "fake_children:be_killed", steps=99)
    assert [line.what for line in lines if isinstance(line, Failed)] == [
        "process 0",
        "restart 0",
        "process 1",
        "restart 1",
    ]


def test_sides_go_first_in_alternate_restarts() -> None:
    stage: list[str] = []

    class Side:
        def __init__(self, name: str) -> None:
            self.name = name

        def begin(self) -> None:
            stage.append(f"{self.name} begins")

        def tell(self, _message: list[object]) -> None:
            self.answer = [100.0, 1980.0]

        def hear(self, limit_s: float) -> list[float]:
            if not hasattr(self, "answer"):
                stage.append(f"{self.name} is ready")
                return []
            return self.answer

    for restart in range(2):
        Sampler(lambda _: None, 60, kernels="gather")._restart(restart, {"A": Side("A"), "B": Side("B")})  # type: ignore[dict-item]
    ahead = [f"{side} {does}" for side in "ABBA" for does in ("begins", "is ready")]
    assert stage == ahead


def test_samples_survive_a_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl.gz"
    writer = Writer(path)
    written = samples(processes=1, restarts=1)
    for line in written:
        writer.write(line)
    assert (tmp_path / "samples.jsonl").read_bytes().count(b"\n") == len(written)
    writer.close()
    assert read([path]) == written
    assert not (tmp_path / "samples.jsonl").exists()


def test_truncated_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    lines = [msgspec.json.encode(line) for line in samples(processes=1, restarts=1)[:3]]
    path.write_bytes(b"\n".join(lines)[:-20])
    assert len(read([path])) == 2
    path.write_bytes(lines[0][:-20] + b"\n" + lines[1])
    with pytest.raises(GpuperfError, match="expected form"):
        read([path])


def test_files_number_processes_and_restarts_apart(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(map(msgspec.json.encode, samples(processes=2, restarts=3)))))
    lines = read([path, path])
    assert len({line.process for line in lines if isinstance(line, SessionSample)}) == 4
    assert len({line.restart for line in lines if isinstance(line, RestartSample)}) == 6
