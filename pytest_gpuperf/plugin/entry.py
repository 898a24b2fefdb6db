"""pytest's entry point: options, the marker and the fixtures; the rest is loaded by `--gpuperf`."""

from __future__ import annotations

import sys

import pytest

from pytest_gpuperf.plugin.fixtures import gpu_timer, gpu_warmup, gpuperf, ncu
from pytest_gpuperf.settings import options

__all__ = ["gpu_timer", "gpu_warmup", "gpuperf", "ncu"]

FIRST_ON_PATH = sys.path[0] if sys.path else ""
"""The first import folder before pytest adds those of tests: the working directory for `python -m`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--gpuperf` and its family."""
    options.add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker and, with `--gpuperf`, begin, before other plugins read their options.

    Raises:
        pytest.UsageError: An option has a value it cannot have, or asks for what needs `--gpuperf`.
    """
    config.addinivalue_line(
        "markers",
        "gpuperf(kernels=None, launches='all', limits=None, tolerance=None, preset=None, metrics=(), "
        "benchmark=False): "
        "kernels: regex or list of them that chooses the kernels to profile; "
        "launches: which of their launches, 'all', 'first', 'last' or an index; "
        "limits: such as {'memory_throughput': '>= 60'} or ['stall.barrier <= 25']; "
        "tolerance: per cent by which the time may exceed its baseline; "
        "preset: the sets of metrics to read, such as 'sol,stalls', in place of --gpuperf-preset; "
        "metrics: metrics to read besides those, raw ncu names or short ones; "
        "benchmark: let the GPU time what pytest-benchmark's fixture runs",
    )
    if options.is_enabled(config):
        from pytest_gpuperf.plugin.hooks import activate

        activate(config, FIRST_ON_PATH)
    else:
        options.refuse_without_gpuperf(config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the GPU time what pytest-benchmark runs, where a test is marked so; skip it without `--gpuperf`."""
    if item.get_closest_marker("gpuperf") is not None:
        from pytest_gpuperf.plugin.benchmark_timer import apply

        apply(item)
