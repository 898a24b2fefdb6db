"""The entry point for pytest: options, marker and fixtures; `--gpuperf` loads the rest."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.errors import GpuperfError, guarded
from pytest_gpuperf.plugin.fixtures import gpu_timer, gpu_warmup, gpuperf, gpuperf_ranks, ncu
from pytest_gpuperf.settings import options

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["gpu_timer", "gpu_warmup", "gpuperf", "gpuperf_ranks", "ncu"]

FIRST_ON_PATH = sys.path[0] if sys.path else ""
"""The first import folder before pytest adds those of tests: the working directory for `python -m`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--gpuperf` and its family."""
    options.add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, args: list[str]
) -> Generator[None, None, None]:
    """Let pytest-xdist run the tests in a process of their own if they measure on a GPU.

    As a wrapper it comes before the hook of pytest-cov, which prepares for one process or for several.
    """
    flag = early_config.known_args_namespace.gpuperf
    if early_config.getini("gpuperf") if flag is None else flag:
        why: list[str] = []
        refused = ""
        with guarded("isolation", why.append):
            from pytest_gpuperf.plugin.isolation import isolate

            try:
                isolate(early_config, args)
            except GpuperfError as error:
                refused = str(error)
        if refused:
            raise pytest.UsageError(f"gpuperf: {refused}")
        if why:
            early_config.issue_config_time_warning(pytest.PytestConfigWarning(f"gpuperf: {why[0]}"), 2)
    yield


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Start a worker for each GPU under `-n auto`."""
    if not options.is_enabled(config):
        return None
    from pytest_gpuperf.plugin.isolation import auto_workers

    try:
        return auto_workers(config)
    except GpuperfError as error:
        raise pytest.UsageError(f"gpuperf: {error}") from None


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; with `--gpuperf` register the hooks before other plugins read their options.

    Raises:
        pytest.UsageError: An option has an invalid value, or needs `--gpuperf`.
    """
    config.addinivalue_line(
        "markers",
        "gpuperf(kernels=None, launches='all', limits=None, tolerance=None, preset=None, metrics=(), "
        "benchmark=False, gpus=None): "
        "kernels: regex, or list of them, that finds the kernels to profile; "
        "launches: launches of these kernels to keep: 'all', 'first', 'last' or an index; "
        "limits: limits such as {'memory_throughput': '>= 60'} or ['stall.barrier <= 25']; "
        "tolerance: accepted slowdown against the baseline, in percent; "
        "preset: presets of metrics to read, such as 'sol,stalls', in place of gpuperf_preset; "
        "metrics: more metrics to read, raw ncu names or short names; "
        "benchmark: time the runs of pytest-benchmark's fixture by the GPU; "
        "gpus: number of GPUs, a rank for each, of a test with gpuperf_ranks",
    )
    if options.is_enabled(config):
        why: list[str] = []
        with guarded("options", why.append):
            from pytest_gpuperf.plugin.activation import activate

            activate(config, FIRST_ON_PATH)
        if why:
            raise pytest.UsageError(f"gpuperf: {why[0]}")
    else:
        options.refuse_without_gpuperf(config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set the GPU timer of pytest-benchmark for a marked test; skip the test without `--gpuperf`."""
    if item.get_closest_marker("gpuperf") is not None:
        from pytest_gpuperf.plugin.benchmark_timer import apply

        why: list[str] = []
        with guarded("pytest-benchmark timer", why.append):
            apply(item)
        if why:
            # Timed by the host, it would be compared with times of the GPU.
            pytest.fail(f"gpuperf: {why[0]}", pytrace=False)
