"""Outputs that are late: of types that compute on use, or written after the return, found on a held GPU."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from inspect import getattr_static
from itertools import chain
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.measure.correctness.call_tensors import (
    PLAIN,
    is_installed,
    is_on_gpu,
    named_tensors,
    values_in,
)
from pytest_gpuperf.measure.device import driver, originals
from pytest_gpuperf.measure.device.memory import PATTERNS, bytes_of, poisoned_memory, streams_of_torch
from pytest_gpuperf.measure.device.originals import finish, now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_gpuperf.measure.correctness.call_tensors import Arguments


_THREADS = 512
"""Threads of a block: all GPUs of these PTX versions have places for a multiple of it."""
_PART_BYTES = 4096
_MOST_OUTPUTS = 32
"""Outputs of a call that are read early: their copies have to begin before the other streams go on."""
_DELAY_CYCLES = 4_000_000
"""About 2 ms."""


@cache
def held_gpu(device: int) -> HeldGpu:
    """Return a device that can be held; the driver keeps the kernel.

    Raises:
        GpuperfError: The driver refuses the kernel.
    """
    return HeldGpu(device)


class HeldGpu:
    """A device that a kernel on a stream of its own can hold.

    Args:
        device: Its index, that of the current device.

    Raises:
        GpuperfError: The driver refuses the kernel.
    """

    def __init__(self, device: int) -> None:
        self.device = torch.device("cuda", device)
        found = torch.cuda.get_device_properties(self.device)
        self._blocks = found.multi_processor_count * (found.max_threads_per_multi_processor // _THREADS)
        self._kernel = driver.kernel(driver.HOLD, device)
        self._stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        # The GPU reads and writes this memory of the host. Allocating it while the GPU is held would wait.
        self._control = torch.zeros(2, dtype=torch.int64, device="cpu").pin_memory()
        self._ends = torch.empty(2 * _MOST_OUTPUTS, _PART_BYTES, dtype=torch.uint8, device="cpu").pin_memory()

    def hold(self, microseconds: float) -> None:
        """Let no kernel of this process begin until `release`, and on torch's other streams until 2 ms later.

        Args:
            microseconds: Longest time, for a call that waits for the GPU.
        """
        self._control[0], self._control[1] = 0, round(1e3 * microseconds)
        stream = self._stream.cuda_stream
        self._kernel.launch(self._blocks, _THREADS, self._control.data_ptr(), stream=stream)
        current = torch.cuda.current_stream()
        for other in streams_of_torch(self.device):
            if other != current:
                with torch.cuda.stream(other):
                    originals.sleep_on_gpu(_DELAY_CYCLES)

    def release(self) -> None:
        """Let kernels begin."""
        self._control[0] = 1

    def is_idle(self) -> bool:
        """Return True if nothing waits on torch's current stream."""
        return originals.is_idle()

    def read(self, tensors: Sequence[torch.Tensor]) -> Callable[[], list[bytes]]:
        """Let the copy engine read parts of the first tensors, in the order of the current stream.

        It needs no multiprocessor, so it can do so while the GPU is held.

        Returns:
            Function that returns the first and the last bytes of each, once the GPU has finished.
        """
        sizes = []
        for at, part in enumerate(chain.from_iterable(map(_ends, tensors[:_MOST_OUTPUTS]))):
            self._ends[at, : part.numel()].copy_(part, non_blocking=True)
            sizes.append(part.numel())
        return lambda: [self._ends[at, :size].numpy().tobytes() for at, size in enumerate(sizes)]


def _ends(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the first and the last bytes of a tensor's memory."""
    memory, size = bytes_of(tensor.untyped_storage()), tensor.element_size()
    start = tensor.storage_offset() * size
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    end = start + (last + 1) * size
    yield memory[start : min(end, start + _PART_BYTES)]
    yield memory[max(start, end - _PART_BYTES) : end]


_LEAST_US = 5000.0
"""Time for which the GPU is held at least, if the call waits for it."""
_MOST_US = 25_000.0
"""The outputs of a call that takes the host so long that this is not enough are not looked at."""
_ARRAYS = ("__dlpack__", "__cuda_array_interface__")


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
    return {
        name: tensor.detach()
        for name, tensor in tensors.items()
        if type(tensor) in PLAIN and tensor.device == device and tensor.numel()
    }


def strange_types(tree: Any, name: str = "output") -> Iterator[tuple[type, str]]:
    """Yield the types of the program's own among outputs, each with a message.

    Subclasses of `torch.Tensor` must be torch's. Arrays and containers may come from any installed library.

    Args:
        tree: The value of a call.
        name: Name of the value in messages.
    """
    kind = type(tree)
    if tree is None or kind in PLAIN:
        return
    if isinstance(tree, torch.Tensor):
        if not _is_from_torch(kind):
            yield kind, _text(name, kind, "a torch.Tensor")
    elif isinstance(tree, (Mapping, tuple, list)):
        if not (_is_plain_container(kind) or is_installed(kind)):
            yield kind, _text(name, kind, "a tuple, list or dict")
            return
        for key, value in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
            yield from strange_types(value, f"{name}[{key!r}]")
    elif is_dataclass(tree) and not isinstance(tree, type):
        if not (_is_plain_dataclass(kind) or is_installed(kind)):
            yield kind, _text(name, kind, "a dataclass with plain fields")
            return
        for field in fields(kind):
            yield from strange_types(getattr(tree, field.name), f"{name}.{field.name}")
    elif any(hasattr(kind, how) for how in _ARRAYS) and not is_installed(kind):
        yield kind, _text(name, kind, "a torch.Tensor")


def types_in(tree: Any) -> Iterator[type]:
    """Yield the types of all values in nested tuples, lists and dicts, and of these."""
    yield type(tree)
    if isinstance(tree, Mapping):
        for value in tree.values():
            yield from types_in(value)
    elif isinstance(tree, (tuple, list)):
        for value in tree:
            yield from types_in(value)


def _is_from_torch(kind: type) -> bool:
    """Return True for a class that torch's own module of that name has: the name alone could be set."""
    module = sys.modules.get(kind.__module__)
    return kind.__module__.partition(".")[0] == "torch" and getattr(module, kind.__name__, None) is kind


def _is_plain_container(kind: type) -> bool:
    # A named tuple is read like a tuple.
    base = next((one for one in (OrderedDict, dict, tuple, list) if issubclass(kind, one)), None)
    how = ("__iter__", "__getitem__", "items", "values")
    return base is not None and all(getattr(kind, name, None) is getattr(base, name, None) for name in how)


def _is_plain_dataclass(kind: type) -> bool:
    """Return True if to read a field of an object runs no code of its class."""
    own = [name for base in kind.__mro__[:-1] for name in vars(base)]
    if "__getattribute__" in own or "__getattr__" in own:
        return False
    found = (getattr_static(kind, field.name, None) for field in fields(kind))
    return all(isinstance(one, MemberDescriptorType) or not hasattr(one, "__get__") for one in found)


def _text(name: str, kind: type, expected: str) -> str:
    return (
        f"{name} is a {kind.__qualname__} of the module {kind.__module__}; expected {expected}, or the type "
        "that the reference returns, since a type of its own may compute its values only when it is read"
    )
