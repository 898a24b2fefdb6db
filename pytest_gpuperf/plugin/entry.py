"""The entry point for pytest: options, marker and fixtures; `--gpuperf` loads the rest.

pytest does not warn that it has not rewritten this module: PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.compat.pytest_names import early_options, leave_assertions
from pytest_gpuperf.plugin.internal_errors import guarded
from pytest_gpuperf.registry import registry
from pytest_gpuperf.settings import options

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_gpuperf.plugin.facade import Gpuperf, GpuTimer, GpuWarmUp, Ncu

NOT_MEASURED = "measures a GPU kernel; run pytest with --gpuperf"
FIRST_ON_PATH = sys.path[0] if sys.path else ""
"""The first import folder before pytest adds those of tests: the working directory for `python -m`."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare `--gpuperf` and its family, and load the fixtures and hooks of the features."""
    leave_assertions()
    options.add_options(parser)
    for name in registry().plugins:
        pluginmanager.register(import_module(name), name)


@guarded
@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, args: list[str]
) -> Generator[None, None, None]:
    """Let pytest-xdist run the tests in a process of their own if they measure on a GPU.

    As a wrapper it comes before the hook of pytest-cov, which prepares for one process or for several.
    """
    flag = getattr(early_options(early_config), "gpuperf", "--gpuperf" in args or None)
    if early_config.getini("gpuperf") if flag is None else flag:
        from pytest_gpuperf.plugin.process_isolation import isolate

        isolate(early_config, args)
    return (yield)


@guarded
@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Start a worker for each GPU under `-n auto`."""
    if not options.is_enabled(config):
        return None
    from pytest_gpuperf.plugin.process_isolation import auto_workers

    return auto_workers(config)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Let `pytest -m gpuperf` select the tests that measure, also without a marker of their own."""
    if "gpuperf" in getattr(item, "fixturenames", ()):
        item.add_marker("gpuperf")


@guarded
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
        from pytest_gpuperf.plugin.hook_selection import activate

        activate(config, FIRST_ON_PATH)
    else:
        options.refuse_without_gpuperf(config)


@pytest.fixture
def gpuperf(request: pytest.FixtureRequest) -> Gpuperf:
    """Check, time and profile callables on the GPU; judge them against limits and baselines.

    Without `--gpuperf` the test is skipped, or only checks: `gpuperf_check`.
    """
    if not request.config.pluginmanager.has_plugin("gpuperf-hooks"):
        if request.config.getini("gpuperf_check") == "auto":
            pytest.skip(NOT_MEASURED)
        from pytest_gpuperf.plugin.check_only import checking

        return checking(request, NOT_MEASURED)
    from pytest_gpuperf.plugin.facade import Gpuperf
    from pytest_gpuperf.plugin.hooks import state_and_runner

    return Gpuperf(*state_and_runner(request))


@pytest.fixture
def gpu_warmup(gpuperf: Gpuperf) -> GpuWarmUp:
    """Run a callable until its time is steady: `gpu_warmup(fn, *args) -> WarmUp`."""
    return gpuperf.warm_up


@pytest.fixture
def gpu_timer(gpuperf: Gpuperf) -> GpuTimer:
    """Time a callable with CUDA events: `gpu_timer(fn, *args, bytes=0, flops=0) -> Timing`."""
    return gpuperf.time


@pytest.fixture
def ncu(gpuperf: Gpuperf) -> Ncu:
    """Read Nsight Compute metrics of a callable's kernels: `ncu(fn, *args, kernels=regex) -> Profile`."""
    return gpuperf.profile
