"""Fixtures that all tests share; nothing here imports torch, scipy or Hypothesis."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from process_state import changes, process_state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest_plugins = ["pytester"]  # pytest accepts it only in this file, and has already imported the module

# A shell starts background jobs with these signals ignored, and so does nohup. Children would inherit that,
# and a test that interrupts a child would wait forever.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# Tests have the same environment in CI and outside it; pytest-xdist sets COLUMNS.
for name in ("CI", "COLUMNS", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_SHA"):
    os.environ.pop(name, None)


def pytest_configure(config: pytest.Config) -> None:
    """Fork the workers of pytest-xdist: they import the slow packages once for all of them."""
    if config.getoption("numprocesses", None):
        from forked import fork_workers

        fork_workers(forking=False)


def pytest_collection_finish() -> None:
    """Leave tests and modules out of later garbage collections: each run in a process has several."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def _process_stays() -> Iterator[None]:
    """Fail a test that leaves the process changed: later ones would depend on it."""
    before = process_state()
    yield
    assert changes(before) == {}


@pytest.fixture
def _seed_restored() -> Iterator[None]:
    from pytest_gpuperf.session.seeds import random_numbers_kept

    with random_numbers_kept():
        yield


@pytest.fixture(autouse=True)
def _no_gpu(request: pytest.FixtureRequest, _process_stays: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the GPU from tests that are not marked `gpu`."""
    if request.node.get_closest_marker("gpu") is None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        if "torch" in sys.modules:  # also for a later import of torch
            monkeypatch.setattr("torch.cuda.is_available", lambda: False)


@pytest.fixture
def cupti_host_library() -> None:
    """Skip the test if CUPTI's host library is not installed."""
    from pytest_gpuperf.measure.cupti.chip_metrics import NoHostLibraryError, supported_metrics

    try:
        supported_metrics("gh100")
    except NoHostLibraryError as error:
        pytest.skip(str(error))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty project and make it the working directory."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def host_counts_as_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls on tensors of the host be verified."""
    for module in ("reachable_tensors", "verification.reexecution"):
        monkeypatch.setattr(f"pytest_gpuperf.measure.{module}.on_gpu", lambda _: True)


@pytest.fixture
def gpu_with_cupti(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold the GPU of `cupti_runs`, which the test processes have, too."""
    from pytest_gpuperf.measure.device.gpu_lock import HELD_ENV

    monkeypatch.setenv(HELD_ENV, "GPU-with-cupti")
