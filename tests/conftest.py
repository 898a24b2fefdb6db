"""What all tests share."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

# pytester unloads what a run has imported, and torch can be loaded only once: load all of it first.
import hypothesis  # noqa: F401
import pytest
import scipy.optimize
import scipy.special
import scipy.stats  # noqa: F401
import torch

import pytest_gpuperf.report.publish
import pytest_gpuperf.session.live
import pytest_gpuperf.session.replay  # noqa: F401
from pytest_gpuperf.measure.cupti.cupti_host import NoHostLibraryError, supported_metrics
from pytest_gpuperf.records.runs import encode_run, recording_path
from run_builders import measured, record, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gpuperf.records import Run

pytest_plugins = ["pytester"]

# A shell starts what runs in the background with these ignored, and nohup too; children would inherit that,
# and tests that interrupt them would wait for ever.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests are the same in CI and out of it."""
    for name in ("CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_SHA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _no_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a GPU tests the same as one without, but for the tests that are marked."""
    if request.node.get_closest_marker("gpu") is None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def cupti_host_library() -> None:
    """CUPTI's host library; a test that asks for it is skipped where there is none."""
    try:
        supported_metrics("gh100")
    except NoHostLibraryError as error:
        pytest.skip(str(error))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of an empty project, which is the working directory."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def add_recording(pytester: pytest.Pytester) -> Callable[[Run], None]:
    """Store a run as a recording of the project under test."""

    def add(recorded: Run) -> None:
        path = recording_path(pytester.path / "baselines", recorded)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_run(recorded))

    return add


@pytest.fixture
def replay(add_recording: Callable[[Run], None]) -> None:
    """A recording of `test_k.py::test_k`, so that a run without a GPU has something to replay."""
    add_recording(run(record("test_k.py::test_k", main=measured(5.3, {"memory_throughput": 77.0}))))
