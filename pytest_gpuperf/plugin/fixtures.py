"""The fixtures: `gpuperf`, and one fixture for each of its main methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_gpuperf.plugin.facade import Gpuperf, GpuTimer, GpuWarmUp, Ncu

NOT_MEASURED = "measures a GPU kernel; run pytest with --gpuperf"


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
