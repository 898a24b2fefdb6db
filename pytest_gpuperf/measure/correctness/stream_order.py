"""Find outputs that are late: not complete if the current stream goes on after the call.

A function that works on a stream of its own has to let the current stream wait for it; otherwise what follows
reads its outputs too early. Most often the work is done by then, so that nobody notices. Here a kernel holds
all multiprocessors until the function has returned, and torch's other streams go on 2 ms later than the
current one. Parts of the outputs are copied in the order of the current stream, and again after the GPU has
finished.

No order is asked of a function that launches nothing on the current stream: it is of a library with streams
of its own (JAX, Warp), and the timing counts the work of the whole device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.measure.correctness.arguments import named_tensors
from pytest_gpuperf.measure.correctness.foreign_arrays import is_on_gpu
from pytest_gpuperf.measure.correctness.poison import PATTERNS, poisoned_memory
from pytest_gpuperf.measure.device.held_gpu import held_gpu
from pytest_gpuperf.measure.device.originals import now
from pytest_gpuperf.measure.device.synchronisation import finish
from pytest_gpuperf.measure.trees import values_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.measure.correctness.arguments import Arguments
    from pytest_gpuperf.measure.device.held_gpu import HeldGpu

_LEAST_US = 5000.0
"""Time for which the GPU is held at least, if the call waits for it."""
_MOST_US = 25_000.0
"""The outputs of a call that takes the host so long that this is not enough are not looked at."""


def late_outputs(
    fn: Callable[..., object],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    arguments: Arguments,
    gpu: HeldGpu | None = None,
) -> str:
    """Return the message of a call with late outputs; empty if there is none, or if it cannot be known.

    Args:
        fn: The function, which has been called before.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        arguments: The tensors among them.
        gpu: The GPU; the current one by default.
    """
    if _has_arrays((args, dict(kwargs))):
        return ""
    gpu = gpu or held_gpu(torch.cuda.current_device())
    with arguments.put_back():
        start = now()
        value = fn(*args, **kwargs)
        host_us = 1e6 * (now() - start)
        finish(value)
        del value
    hold_us = 2 * host_us + _LEAST_US
    if hold_us > _MOST_US:
        return ""
    with arguments.put_back(), poisoned_memory(PATTERNS[0], {gpu.device}):
        finish()
        gpu.hold(hold_us)
        try:
            value = fn(*args, **kwargs)
            outputs = {} if gpu.is_idle() or _has_arrays(value) else _outputs(value, arguments, gpu.device)
            parts = gpu.read(list(outputs.values()))
        finally:
            gpu.release()
        finish(value)
        early = parts()
        parts = gpu.read(list(outputs.values()))
        finish()
        late = [name for name, before, after in zip(outputs, early, parts(), strict=False) if before != after]
    if not late:
        return ""
    are = "is" if len(late) == 1 else "are"
    return (
        f"{', '.join(late)} {are} late: another stream still writes when the current stream goes on after "
        "the call; expected torch.cuda.current_stream().wait_stream(...) before the function returns"
    )


def _has_arrays(tree: object) -> bool:
    """Return True if there are arrays of other libraries, which may have streams of their own."""
    return any(not isinstance(leaf, torch.Tensor) and is_on_gpu(leaf) for leaf in values_in(tree))


def _outputs(value: object, arguments: Arguments, device: torch.device) -> dict[str, torch.Tensor]:
    tensors = arguments.written if value is None else dict(named_tensors(value, "output"))
    plain = (torch.Tensor, torch.nn.Parameter)
    return {
        name: tensor.detach()
        for name, tensor in tensors.items()
        if type(tensor) in plain and tensor.device == device and tensor.numel()
    }
