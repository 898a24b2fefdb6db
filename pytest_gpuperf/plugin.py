"""pytest's entry point: options, the marker and the fixtures; the rest is loaded by `--gpuperf`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf import options
from pytest_gpuperf.fixtures import gpu_timer, gpu_warmup, gpuperf, ncu

if TYPE_CHECKING:
    import pytest

__all__ = ["gpu_timer", "gpu_warmup", "gpuperf", "ncu"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--gpuperf` and its family."""
    options.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker and, with `--gpuperf`, start the session."""
    config.addinivalue_line(
        "markers",
        "gpuperf(kernels=None, limits=None, tolerance=None, metrics=()): "
        "kernels: regex or list of them that chooses the kernels to profile; "
        "limits: such as {'memory_throughput': '>= 60'} or ['stall.barrier <= 25']; "
        "tolerance: per cent by which the time may exceed its baseline; "
        "metrics: raw ncu metrics to read besides the usual ones",
    )
    if options.is_enabled(config):
        from pytest_gpuperf.hooks import activate

        activate(config)
