"""Live runs on a simulated GPU, as a pytest plugin (`-p simulated_run`): all of the package measures.

Only torch, the driver and CUPTI are replaced. Tensors lie in the memory of the host, and a callable launches
its kernel with `simulated_run.launch`.
"""

from __future__ import annotations

import pytest
import torch

import cupti_runs
import fake_cupti
from fake_driver import Driver
from pytest_gpuperf.measure import first_calls, reachable_tensors
from pytest_gpuperf.measure.counters import cupti_counters
from pytest_gpuperf.measure.cupti import activity
from pytest_gpuperf.measure.device import driver, originals
from pytest_gpuperf.measure.timing import kernels_batch, timer
from pytest_gpuperf.measure.verification import cupti_records
from simulated_gpu import SimulatedGpu, SimulatedStamps, install_kernels

PATCH = pytest.MonkeyPatch()
KERNEL_US = 50.0
gpus: list[SimulatedGpu] = []


def launch(us: float = KERNEL_US) -> None:
    """Launch a kernel on the GPU of the run."""
    gpus[-1].launch(us, "square_kernel")


def pytest_configure() -> None:
    """Replace the GPU."""
    cupti = cupti_runs.install()
    gpus.append(gpu := SimulatedGpu(PATCH))
    fake_cupti.install(PATCH, cupti)
    graphs = Driver()
    PATCH.setattr(driver, "library", lambda: graphs)
    gpu.on_capture = graphs.kernel
    install_kernels(PATCH, gpuperf_empty=lambda *_: gpu.launch(0.5, "gpuperf_empty"))
    PATCH.setattr(timer, "Stamps", lambda: SimulatedStamps(gpu))
    PATCH.setattr(timer, "Burn", lambda: lambda seconds: None)
    PATCH.setattr(torch.cuda, "memory_snapshot", list)
    PATCH.setattr(reachable_tensors, "on_gpu", lambda tensor: True)
    PATCH.setattr(reachable_tensors, "free_bytes", lambda: 1 << 40)
    PATCH.setattr(originals, "_is_foreign", lambda _: False)  # the GPU is one
    for module in (activity, cupti_records, kernels_batch, first_calls, cupti_counters):
        PATCH.setattr(module, "recorded", gpu._recorded)
