"""Find outputs that are not complete when the call returns.

Late outputs: a function that works on a stream of its own has to let the current stream wait for it;
otherwise what follows reads its outputs too early. Most often the work is done by then, so that nobody
notices. Here a kernel holds all multiprocessors until the function has returned, and torch's other streams go
on 2 ms later than the current one. Parts of the outputs are copied in the order of the current stream, and
again after the GPU has finished.

No order is asked of a function that launches nothing on the current stream: it is of a library with streams
of its own (JAX, Warp), and the timing counts the work of the whole device.

Lazy outputs: a tensor of a type that computes its values only when it is read has done nothing before.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from inspect import getattr_static
from pathlib import Path
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.measure.correctness.call_tensors import is_on_gpu, named_tensors
from pytest_gpuperf.measure.correctness.poison import PATTERNS, poisoned_memory
from pytest_gpuperf.measure.device.held_gpu import held_gpu
from pytest_gpuperf.measure.device.originals import now
from pytest_gpuperf.measure.device.synchronisation import finish
from pytest_gpuperf.measure.trees import values_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.measure.correctness.call_tensors import Arguments
    from pytest_gpuperf.measure.device.held_gpu import HeldGpu

_LEAST_US = 5000.0
"""Time for which the GPU is held at least, if the call waits for it."""
_MOST_US = 25_000.0
"""The outputs of a call that takes the host so long that this is not enough are not looked at."""
PLAIN = (torch.Tensor, torch.nn.Parameter)
_ARRAYS = ("__dlpack__", "__cuda_array_interface__")
_INSTALLED = ("site-packages", "dist-packages")


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
        if not (_is_plain_container(kind) or _is_installed(kind)):
            yield kind, _text(name, kind, "a tuple, list or dict")
            return
        for key, value in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
            yield from strange_types(value, f"{name}[{key!r}]")
    elif is_dataclass(tree) and not isinstance(tree, type):
        if not (_is_plain_dataclass(kind) or _is_installed(kind)):
            yield kind, _text(name, kind, "a dataclass with plain fields")
            return
        for field in fields(kind):
            yield from strange_types(getattr(tree, field.name), f"{name}.{field.name}")
    elif any(hasattr(kind, how) for how in _ARRAYS) and not _is_installed(kind):
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
    if issubclass(kind, Mapping):
        return kind in (dict, OrderedDict)
    # A named tuple is read like a tuple.
    base = tuple if issubclass(kind, tuple) else list
    return all(getattr(kind, name) is getattr(base, name) for name in ("__iter__", "__getitem__"))


def _is_plain_dataclass(kind: type) -> bool:
    """Return True if to read a field of an object runs no code of its class."""
    own = [name for base in kind.__mro__[:-1] for name in vars(base)]
    if "__getattribute__" in own or "__getattr__" in own:
        return False
    found = (getattr_static(kind, field.name, None) for field in fields(kind))
    return all(isinstance(one, MemberDescriptorType) or not hasattr(one, "__get__") for one in found)


def _is_installed(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    # The module of a class can be set to any text, so the class must be there.
    where = getattr(module, "__file__", None)
    known = getattr(module, kind.__name__, None) is kind
    root = sys.modules.get(kind.__module__.partition(".")[0])
    where = where or getattr(root, "__file__", None)
    return known and where is not None and any(part in _INSTALLED for part in Path(where).parts)


def _text(name: str, kind: type, expected: str) -> str:
    return (
        f"{name} is a {kind.__qualname__} of the module {kind.__module__}; expected {expected}, or the type "
        "that the reference returns, since a type of its own may compute its values only when it is read"
    )
