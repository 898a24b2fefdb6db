"""State of the process that no test may leave changed, by name. It imports no library."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_OF_TORCH: dict[str, Callable[[Any], object]] = {
    "TF32 of products": lambda torch: torch.backends.cuda.matmul.allow_tf32,
    "TF32 of cuDNN": lambda torch: torch.backends.cudnn.allow_tf32,
    "cuDNN's choice by time": lambda torch: torch.backends.cudnn.benchmark,
    "cuDNN's deterministic algorithms": lambda torch: torch.backends.cudnn.deterministic,
    "precision of products": lambda torch: torch.get_float32_matmul_precision(),
    "deterministic algorithms": lambda torch: torch.get_deterministic_debug_mode(),
    "default type": lambda torch: torch.get_default_dtype(),
    "gradients": lambda torch: (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
    "autocast": lambda torch: [torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")],
    "threads": lambda torch: torch.get_num_threads(),
    "seed": lambda torch: torch.initial_seed(),
    "modes": lambda torch: torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack(),
}


_OF_OTHERS = (
    *("PYTEST_", "TORCHINDUCTOR_", "TRITON_CACHE_DIR", "TRITON_PTXAS", "DISABLE_CUPTI_LAZY_REINIT"),
    *("KINETO_", "__DASK", "MALLOC_TRIM", "MKL_", "OMP_", "OPENBLAS_", "PYTHONHASHSEED"),
)
"""Variables that pytest, torch and Dask set themselves."""


def process_state() -> dict[str, object]:
    """Return what can be asked without an import."""
    state: dict[str, object] = {
        "signals": {number: signal.getsignal(number) for number in (1, 2, 10, 13, 14, 15)},
        "working directory": Path.cwd(),
        "garbage collection": (gc.isenabled(), gc.get_threshold()),
        "profiler": (sys.getprofile(), sys.gettrace()),
        "random numbers": hash(random.getstate()),
    }
    if (numpy := sys.modules.get("numpy")) is not None:
        name, numbers, *place = numpy.random.get_state()
        state["random numbers of NumPy"] = hash((name, numbers.tobytes(), *place))
    state |= {f"${name}": one for name, one in os.environ.items() if not name.startswith(_OF_OTHERS)}
    torch: Any = sys.modules.get("torch")
    if hasattr(torch, "get_rng_state"):
        state |= {name: ask(torch) for name, ask in _OF_TORCH.items()}
        if torch.cuda.is_initialized():
            from pytest_gpuperf.compat.torch_names import context_test

            device = torch.cuda.current_device()
            state["CUDA"] = [device, torch.cuda.get_sync_debug_mode()]
            # Before the GPU is used, there is no context, and so no limit of one.
            if context_test()(device):
                state["limits of CUDA"] = _limits()
    return state


def _limits() -> dict[str, int]:
    """Return the limits of the current CUDA context by name; the driver itself enlarges that of the stack."""
    import ctypes

    from cuda_header import cuda_numbers
    from pytest_gpuperf.measure.device.driver import library

    size = ctypes.c_size_t()
    return {
        name: size.value
        for name, number in cuda_numbers().items()
        if name.startswith("CU_LIMIT_") and name not in ("CU_LIMIT_MAX", "CU_LIMIT_STACK_SIZE")
        if library().cuCtxGetLimit(ctypes.byref(size), number) == 0
    }


def changes(before: dict[str, object]) -> dict[str, object]:
    """Return the changes since, as they are now; an import of torch does not count."""
    after = process_state()
    names = {name for name in before.keys() | after.keys() if name in before or name.startswith("$")}
    return {name: after.get(name) for name in names if before.get(name) != after.get(name)}
