"""`gpuperf baseline record`, with a fake pytest that writes prepared runs."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from forked import ForkedPython
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.cli import baseline_record, main
from pytest_gpuperf.records.runs import RunStore, encode_run
from pytest_gpuperf.session import live
from run_builders import measured, record, run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_gpuperf.records import Run

# `python -m pytest` finds it first, in the working directory.
FAKE = """
import json, os, pathlib, signal, sys, time

here = pathlib.Path(__file__).parent
calls = here / "calls.jsonl"
with calls.open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
runs, end = json.loads((here / "script.json").read_text())[len(calls.read_text().splitlines()) - 1]
if end == "interrupt":
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(0.6)
    (here / "ended").touch()
for id, text in runs.items():
    folder = here / ".gpuperf" / "runs" / id
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(text)
if end == "crash":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(2 if end == "interrupt" else end)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "pytest.py").write_text(FAKE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(live, "why_not_live", lambda: "")
    return tmp_path


@pytest.fixture
def script(project: Path) -> Callable[..., None]:
    """Set the run and exit status of each process."""

    def write(*processes: tuple[list[Run], Any]) -> None:
        content = [({one.id: encode_run(one).decode() for one in runs}, end) for runs, end in processes]
        (project / "script.json").write_text(json.dumps(content), encoding="utf-8")

    return write


def session(number: int, time_us: float = 5.3, **changed: Any) -> Run:
    one = run(record(main=measured(time_us)), id=f"run-{number}", started_at=f"2026-11-20T00:00:{number:02}Z")
    return msgspec.structs.replace(one, **changed)


def gpuperf_record(*args: str) -> Result:
    return CliRunner().invoke(main, ["baseline", "record", *args])


def calls(project: Path) -> list[list[str]]:
    return [json.loads(line) for line in (project / "calls.jsonl").read_text(encoding="utf-8").splitlines()]


def stored(project: Path) -> list[str]:
    found = BaselineStore(project / "baselines").load("nvidia-h200", "test_square")
    return [one.run for time in found.times for one in time.sessions] if found else []


def test_sessions_of_fresh_processes_are_accepted_together(
    project: Path, script: Callable[..., None]
) -> None:
    script(*[([session(number)], 0) for number in (1, 2, 3)])
    result = gpuperf_record("--sessions", "3")
    assert result.exit_code == 0
    assert stored(project) == ["run-1", "run-2", "run-3"]
    output = result.output.splitlines()
    assert output[0].startswith("session 1 of 3: pytest --gpuperf --gpuperf-replay=never")
    assert output[1].startswith("session 1 of 3: run run-1, 1 test, ")
    assert "    time 5.30 µs (hot, mean of 3 sessions)" in output
    assert output[-1] == "wrote baselines/nvidia-h200/test_square.json (1 test)"


def test_counters_are_read_once_and_arguments_go_to_pytest(
    project: Path, script: Callable[..., None]
) -> None:
    script(([session(1)], 0), ([session(2)], 0))
    gpuperf_record("--sessions", "2", "--", "suites", "-k", "a or b", "--gpuperf-update=all")
    common = ["--gpuperf", "suites", "-k", "a or b", "--gpuperf-update=all"]
    common += ["--gpuperf-replay=never", "--gpuperf-update=never", "--gpuperf-keep=0"]
    assert calls(project) == [common, [*common, "--gpuperf-counters=off"]]


def test_folders_are_passed_to_pytest(project: Path, script: Callable[..., None]) -> None:
    script(([session(1)], 0))
    gpuperf_record("--sessions", "1", "--root", str(project), "--baselines", "perf")
    assert calls(project)[0][-2:] == [f"--rootdir={project}", f"--gpuperf-baselines={project / 'perf'}"]
    assert (project / "perf" / "nvidia-h200" / "test_square.json").is_file()


def test_code_that_has_changed_replaces_all_sessions(project: Path, script: Callable[..., None]) -> None:
    script(*[([session(number, 5.3 if number < 3 else 4.0)], int(number > 2)) for number in (1, 2, 3, 4)])
    gpuperf_record("--sessions", "2")
    result = gpuperf_record("--sessions", "2")
    assert result.output.splitlines()[1].endswith(" s, tests failed")
    assert "2 sessions replaced by 2 (time moved -24.5 %)" in result.output
    assert stored(project) == ["run-3", "run-4"]


def test_append_keeps_all_sessions(project: Path, script: Callable[..., None]) -> None:
    script(([session(1)], 0), ([session(2, 4.0)], 0))
    gpuperf_record("--sessions", "1")
    assert "session 2 of 2 added" in gpuperf_record("--sessions", "1", "--append").output
    assert stored(project) == ["run-1", "run-2"]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (([], 4), "pytest ended with exit status 4"),
        (([], "crash"), "pytest ended with Killed"),
        (([], 0), "pytest left no run"),
        (([session(3), session(4)], 0), "another process measured meanwhile: run-3, run-4"),
        (([session(3, complete=False)], 1), "pytest stopped before its end (run run-3)"),
        (([session(3, schema=99)], 0), "was written by a newer pytest-gpuperf"),
        (([], "interrupt"), "interrupted"),
    ],
    ids=["usage", "crash", "no run", "two runs", "stopped", "newer", "Ctrl-C"],
)
def test_failed_session_accepts_nothing_and_keeps_runs(
    project: Path, script: Callable[..., None], last: tuple[list[Run], Any], said: str
) -> None:
    script(([session(1)], 0), ([session(2)], 0), last)
    result = gpuperf_record("--sessions", "3")
    assert result.exit_code == 2
    error = result.output.splitlines()[-1]
    assert error.startswith("gpuperf: error: session 3 of 3: ")
    assert said in error
    assert error.endswith(
        "no baseline has changed; `gpuperf baseline accept run-1 run-2` takes the 2 runs that are complete"
    )
    assert not (project / "baselines").exists()
    assert RunStore(project / ".gpuperf").ids() >= {"run-1", "run-2"}
    accepted = CliRunner().invoke(main, ["baseline", "accept", "run-1", "run-2"])
    assert (accepted.exit_code, stored(project)) == (0, ["run-1", "run-2"])


def test_interrupted_pytest_gets_time_to_end(project: Path, script: Callable[..., None]) -> None:
    script(([], "interrupt"))
    result = gpuperf_record("--sessions", "1")
    assert result.output.splitlines()[-1] == (
        "gpuperf: error: session 1 of 1: interrupted; no baseline has changed"
    )
    assert (project / "ended").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_runs_that_cannot_be_accepted_are_named(project: Path, script: Callable[..., None]) -> None:
    script(([session(1)], 0))
    path = project / "baselines" / "nvidia-h200" / "test_square.json"
    path.parent.mkdir(parents=True)
    path.write_text("{", encoding="utf-8")
    result = gpuperf_record("--sessions", "1")
    assert result.exit_code == 2
    hint, error = result.output.splitlines()[-2:]
    assert hint == "`gpuperf baseline accept run-1` takes the run that is complete"
    assert "test_square.json is not valid JSON" in error
    assert path.read_text(encoding="utf-8") == "{"


def test_ci_is_refused_before_anything_is_measured(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    result = gpuperf_record()
    assert result.exit_code == 2
    assert "because CI is set" in result.output
    assert not (project / "calls.jsonl").exists()


def test_machine_without_a_gpu_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "why_not_live", lambda: "torch sees no CUDA GPU")
    result = gpuperf_record()
    assert result.exit_code == 2
    assert result.output.startswith("gpuperf: error: nothing can be measured here: torch sees no CUDA GPU;")
    assert not (project / "calls.jsonl").exists()


@pytest.mark.parametrize("number", ["0", "21", "many"])
def test_number_of_sessions_is_limited_by_the_baseline(project: Path, number: str) -> None:
    assert gpuperf_record("--sessions", number).exit_code == 2
    assert not (project / "calls.jsonl").exists()


def test_real_pytest_does_not_replay(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(command: Sequence[str]) -> int:
        """Run pytest in a fork, which spares it the import of torch."""
        with os.fdopen(os.dup(1), "wb") as out:
            return ForkedPython(command[1:], stdout=out).wait()

    monkeypatch.setattr(baseline_record, "_wait", wait)
    (project / "pytest.py").unlink()
    (project / "test_k.py").write_text(
        "def test_k(gpuperf): pass\ndef test_time(gpuperf): gpuperf.time(print)\n", encoding="utf-8"
    )
    result = gpuperf_record("--sessions", "1")
    assert result.exit_code == 2
    assert re.search(
        r"session 1 of 1: pytest found no GPU \(run \S+\); no baseline has changed", result.output
    )
    assert "--gpuperf-replay=never forbids a replay" in capfd.readouterr().out
