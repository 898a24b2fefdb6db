"""Private names of torch, with the replacement of a missing one, and the loss then.

torch 2.11 and 2.13 have all of them; a build without CUDA lacks those with `cuda`. What the timing path needs
is taken once, at the import of `measure/device/originals.py`, so that no test can replace it.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_Public = TypeVar("_Public")
_DISPATCH = getattr(torch.utils, "_python_dispatch", None)
_OF_TEMPLATE = re.compile(r"(BLOCK_\w+|GROUP_M|num_warps|num_stages): \d+$")
"""Parts of a configuration by which templates differ; the others follow from the shapes."""


def _of_c(name: str, public: _Public) -> _Public:
    found: _Public = getattr(torch._C, name, public)
    return found


def event_type() -> Any:
    """Take `_CudaEventBase`; else `torch.cuda.Event`, whose methods a test can replace."""
    return _of_c("_CudaEventBase", torch.cuda.Event)


def stream_type() -> Any:
    """Take `_CudaStreamBase`; else `torch.cuda.Stream`, whose methods a test can replace."""
    return _of_c("_CudaStreamBase", torch.cuda.Stream)


def graph_type() -> Any:
    """Take `_CUDAGraph`; else `torch.cuda.CUDAGraph`, whose methods a test can replace."""
    return _of_c("_CUDAGraph", torch.cuda.CUDAGraph)


def tensor_type() -> Any:
    """Take `TensorBase`; else `torch.Tensor`, whose methods a test can replace."""
    return _of_c("TensorBase", torch.Tensor)


def synchronisation() -> Callable[[], None]:
    """Take `_cuda_synchronize`; else `torch.cuda.synchronize`, which takes longer."""
    return _of_c("_cuda_synchronize", torch.cuda.synchronize)


def sleep() -> Callable[[int], None] | None:
    """Take `_cuda_sleep`, which spins on the GPU; else None: the caller needs a kernel of its own."""
    return _of_c("_cuda_sleep", None)


def current_device() -> Callable[[], int]:
    """Take `_cuda_getDevice`; else `torch.cuda.current_device`, which takes longer."""
    return _of_c("_cuda_getDevice", torch.cuda.current_device)


def current_stream() -> Callable[[], Any]:
    """Take `_cuda_getCurrentStream`; else `torch.cuda.current_stream`, which takes longer."""
    ask, device, stream = _of_c("_cuda_getCurrentStream", None), current_device(), stream_type()
    if ask is None or stream is torch.cuda.Stream:
        return torch.cuda.current_stream

    def current() -> Any:
        stream_id, device_index, device_type = ask(device())
        return stream(stream_id=stream_id, device_index=device_index, device_type=device_type)

    return current


def context_test() -> Callable[[int], bool]:
    """Take `_cuda_hasPrimaryContext`; else ask for torch's memory there: other libraries' work is missed."""
    return _of_c("_cuda_hasPrimaryContext", lambda device: torch.cuda.memory_reserved(device) > 0)


def without_functions() -> Callable[[], Any]:
    """Take `DisableTorchFunction`; else nothing: a mode that a callable left active sees our calls."""
    return _of_c("DisableTorchFunction", nullcontext)


def without_modes() -> Callable[[], Any]:
    """Take `_disable_current_modes`; else nothing: a mode that a callable left active sees our calls."""
    return getattr(_DISPATCH, "_disable_current_modes", nullcontext)


def function_modes() -> Callable[[], int]:
    """Take `_len_torch_function_stack`; else count 0: a mode that a callable leaves active is not noticed."""
    return _of_c("_len_torch_function_stack", int)


def dispatch_modes() -> Callable[[], int]:
    """Take `_len_torch_dispatch_stack`; else count 0: a mode that a callable leaves active is not noticed."""
    return _of_c("_len_torch_dispatch_stack", int)


def kernels_of_libraries() -> frozenset[str]:
    """Read `torch.library._impls`; else none: a kernel put in the place of torch's is not noticed."""
    return frozenset(getattr(torch.library, "_impls", ()))


def profiler_runs() -> bool:
    """Ask `_profiler_enabled` and `_is_profiler_enabled`; else False: CUPTI refuses a second client."""
    here = getattr(torch.autograd, "_profiler_enabled", bool)()
    return bool(here or getattr(torch.autograd.profiler, "_is_profiler_enabled", False))


def demangled(name: str) -> str:
    """Ask `_demangle`; else return the name as the compiler made it."""
    return str(_of_c("_demangle", str)(name))


def with_bits(tensor: torch.Tensor, bits: tuple[bool, bool]) -> torch.Tensor:
    """Return a tensor as a view that conjugates or negates, by `_neg_view`; without that name none negates.

    Args:
        tensor: The tensor.
        bits: Whether the view conjugates, and whether it negates.
    """
    is_conjugate, is_negative = bits
    found = tensor.conj() if is_conjugate else tensor
    negated = getattr(torch, "_neg_view", None) if is_negative else None
    return negated(found) if negated is not None else found


def end_allocations(pool: tuple[int, int]) -> None:
    """Call `_cuda_endAllocateToPool` after a failed capture; else do nothing, as from torch 2.12 on is right.

    torch before 2.12 does not (pytorch#180395): the end of the next memory pool would then end the process.
    """
    with suppress(Exception):  # it has ended, or the name is missing
        torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)


def can_record_memory() -> bool:
    """Return True if `recorded_memory` can be used: it has its names, and nobody else records.

    Else allocations of a call get no red zones on a GPU. Asked before CUDA is initialised, torch crashes.
    """
    memory, is_recorded = torch.cuda.memory, _of_c("_cuda_isHistoryEnabled", None)
    known = all(hasattr(memory, name) for name in ("_record_memory_history", "_snapshot"))
    return known and is_recorded is not None and not is_recorded()


@contextmanager
def recorded_memory(most: int) -> Iterator[Callable[[], list[Any]]]:
    """Record by `torch.cuda.memory._record_memory_history`; see `can_record_memory`.

    Args:
        most: Events that are kept.

    Yields:
        A function that returns the events of each device.
    """
    memory: Any = torch.cuda.memory
    memory._record_memory_history("all", context=None, max_entries=most, clear_history=True)
    try:
        yield lambda: list(memory._snapshot()["device_traces"])
    finally:
        memory._record_memory_history(None)


@contextmanager
def compilations_noted(note: Callable[[float, int, int], object]) -> Iterator[None]:
    """Read `cumulative_time_spent_ns` and `counters` of `torch._dynamo.utils`; else Inductor is not noted.

    Args:
        note: Gets Inductor's seconds in the block, and how many graphs it compiled and took from its disk.
    """
    before = _inductors_work()
    yield
    seconds, compiled, cached = (now - then for now, then in zip(_inductors_work(), before, strict=True))
    # A callable may have reset them.
    if min(seconds, compiled, cached) >= 0 < max(seconds, compiled, cached):
        note(seconds, int(compiled), int(cached))


def _inductors_work() -> tuple[float, int, int]:
    utils = sys.modules.get("torch._dynamo.utils")
    counts = getattr(utils, "counters", {})
    graphs, whole = counts.get("inductor", {}), counts.get("aot_autograd", {})
    compiled = graphs.get("fxgraph_cache_miss", 0) + graphs.get("fxgraph_cache_bypass", 0)
    cached = max(graphs.get("fxgraph_cache_hit", 0), whole.get("autograd_cache_hit", 0))
    spent_ns = getattr(utils, "cumulative_time_spent_ns", {})
    return spent_ns.get("inductor_compile", 0) / 1e9, compiled, cached


@contextmanager
def templates_pinned(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set `test_configs.autotune_choice_desc_regex` of Inductor's `config`; else Inductor chooses.

    What was compiled is compiled again in the block, and once more after it, if a template is wanted.

    Args:
        wanted: The configuration of each kernel, by its name.
    """
    name = "autotune_choice_desc_regex"
    config: Any = sys.modules.get("torch._inductor.config")
    patterns = [_pattern_of(one) for kernel, one in wanted.items() if kernel.startswith("triton_tem_")]
    if not patterns or not hasattr(getattr(config, "test_configs", None), name):
        yield
        return
    try:
        # Other libraries' products have no description.
        with config.patch({f"test_configs.{name}": "|".join(["^$", *patterns])}):
            torch.compiler.reset()
            yield
    finally:
        torch.compiler.reset()


def _pattern_of(config: str) -> str:
    """Return a regex for Inductor's description of a template: `BLOCK_K=32, BLOCK_M=64, num_warps=4`."""
    parts = (part.split(": ") for part in config.split(", ") if _OF_TEMPLATE.match(part))
    return "".join(rf"(?=.*\b{name}={value}\b)" for name, value in parts)


def dispatch_mode_type() -> Any:
    """Take `TorchDispatchMode`; else a block without effect: no memory on a CPU is guarded."""
    return getattr(_DISPATCH, "TorchDispatchMode", nullcontext)
