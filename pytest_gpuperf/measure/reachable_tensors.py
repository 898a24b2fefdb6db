"""What a call reaches: its tensors, their values from before the timing, and copies of them elsewhere.

Restored are the arguments that must stay, and all that each call writes. That is also what a callable can
reach: parameters and buffers of modules, states of optimizers, caches.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness.call_tensors import (
    PLAIN,
    is_installed,
    mapped,
    tensors_of_arguments,
    values_in,
)
from pytest_gpuperf.measure.device.memory import alias, bytes_of, fingerprint, free_bytes, twin
from pytest_gpuperf.measure.device.originals import ProcessState, finish, library_unchanged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_gpuperf.records.call import Call


_WITHOUT_TENSORS = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout)


def tensors_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the tensors of torch on the GPU among arguments, by name."""
    return {
        name: one
        for found in tensors_of_arguments(args, kwargs).values()
        for name, one in found.items()
        if type(one) in PLAIN and one.numel() and on_gpu(one)
    }


def argument_of(name: str) -> str:
    """Return the argument to which the name of a tensor in it leads: `argument 0` for `argument 0.k[1]`."""
    return name.replace(".", "[").partition("[")[0]


def on_gpu(tensor: torch.Tensor) -> bool:
    """Return True for memory of the GPU: a graph has copied values of the host."""
    return tensor.is_cuda


def copies(tree: Any, made: dict[int, torch.UntypedStorage] | None = None) -> Any:
    """Copy the tensors in tuples, lists and dicts to other addresses, with their strides and offsets.

    Args:
        tree: The arguments.
        made: Copies by address: tensors that share memory share it afterwards.
    """
    made = {} if made is None else made

    def copy(value: Any) -> Any:
        if type(value) not in PLAIN or value.layout != torch.strided or not on_gpu(value):
            return value
        storage = value.untyped_storage()
        if storage.data_ptr() not in made:
            made[storage.data_ptr()] = bytes_of(storage).clone().untyped_storage()
        other = twin(value, made[storage.data_ptr()])
        if value.is_leaf and value.grad is not None:
            other.grad = copy(value.grad)
        return other

    return mapped(copy, tree)


def copied_call(call: Call) -> Call:
    """Return a call with copies of its tensors at other addresses.

    Returns:
        The call itself if there is too little memory, or if it might do other work on copies: an argument is
        part of a graph of autograd, is a view that conjugates or negates, or may know the tensors.
    """
    if not all(map(_is_copied_whole, values_in((call.args, dict(call.kwargs))))):
        return call
    storages = {one.untyped_storage() for one in tensors_of(call.args, call.kwargs).values()}
    try:
        refuse_little_memory(sum({one.data_ptr(): one.nbytes() for one in storages}.values()))
    except GpuperfError:
        return call
    made: dict[int, torch.UntypedStorage] = {}
    return replace(call, args=copies(call.args, made), kwargs=copies(dict(call.kwargs), made))


class CallElsewhere:
    """A call on copies of its tensors at other places in memory; see `copied_call`."""

    def __init__(self, call: Call) -> None:
        self._copied = copied_call(call)
        own, others = (tensors_of(one.args, one.kwargs) for one in (call, self._copied))
        pairs = {
            tensor.untyped_storage().data_ptr(): (tensor.untyped_storage(), others[name].untyped_storage())
            for name, tensor in own.items()
        }
        self._pairs = [(bytes_of(one), bytes_of(other)) for one, other in pairs.values()]
        self.addresses = {other.data_ptr() for _, other in self._pairs}
        """Addresses of its tensors there."""
        self.nbytes = sum(other.numel() for _, other in self._pairs)

    def __call__(self) -> Any:
        """Call it there."""
        return self._copied()

    def take(self) -> None:
        """Write the present values of the call's own tensors into the copies."""
        for own, other in self._pairs:
            other.copy_(own)

    def give(self) -> None:
        """Write the values of the copies into the call's own tensors."""
        for own, other in self._pairs:
            own.copy_(other)


def _is_copied_whole(value: Any) -> bool:
    if type(value) not in PLAIN:
        return isinstance(value, _WITHOUT_TENSORS)
    alone = value.is_leaf and value.grad is None and not vars(value)
    return alone and value.layout == torch.strided and not (value.is_conj() or value.is_neg())


def lacks_memory(size: int) -> bool:
    """Return True if less than twice the size is free on the GPU."""
    return torch.cuda.is_available() and free_bytes() < 2 * size


def refuse_little_memory(size: int) -> None:
    """Refuse to copy if less than twice the size is free on the GPU.

    Raises:
        GpuperfError: It is not.
    """
    if lacks_memory(size):
        raise GpuperfError(
            f"{free_bytes() / 2**30:.3g} GiB are free on the GPU",
            expected=f"{2 * size / 2**30:.3g} GiB, twice the tensors that would be copied",
        )


MOST_BYTES = 256 << 20
"""Memory that a copy to the host and back moves in some tens of milliseconds."""
MOST_HOST_BYTES = 1 << 20
"""Largest tensor of the host that is looked at, such as the steps of an optimizer."""
MOST_OBJECTS = 50_000
"""Objects that are looked at, in some tens of milliseconds."""
_CLOSED = (BuiltinFunctionType, CodeType, FrameType, ModuleType, type, str, bytes, int, float, torch.Tensor)
_OTHERS = ("_pytest", "pytest", "pytest_gpuperf", "torch", "triton", "numpy", "builtins")
"""Packages whose functions hold no tensors of a callable by the names in their code."""


class StateSnapshot:
    """Tensors that a timing may write, with their values from before.

    These are the arguments that a checked callable may write to, gradients, and what one plain call shows:
    buffers of modules, states of optimizers, caches. It also makes what is made once; such values are
    restored to those after that call. The copies lie in the memory of the host, so that the memory of the
    timed calls is where it would be.

    Args:
        call: The call. It is called once if it can reach other tensors than its arguments.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self.process = ProcessState()
        self._prints = self._fingerprints()
        self._left_bytes = MOST_BYTES
        arguments = tensors_of(call.args, call.kwargs)
        self._own = set(_by_address(arguments.values()))
        reached, generators = in_reach(call.fn, call.args, call.kwargs)
        self._generators = [(one, one.get_state()) for one in generators]
        self._gradients = [(one, one.grad) for one in reached if one.is_leaf and one.requires_grad]
        of_checked = call.reference is not None
        self._arguments = self._copies(
            [one for name, one in arguments.items() if of_checked and name not in self._prints]
        )
        gradients = [one for _, one in self._gradients if one is not None and one.layout == torch.strided]
        # Whatever their size: a call adds to them, so each of its calls has to find their values.
        self._of_gradients = [_with_copy(one) for one in gradients]
        self._own |= _by_address(gradients).keys()
        self._states = self._copies(self._changed_by_a_call(reached))

    def changed_argument(self) -> str:
        """Name an argument that the callable may not write to and has written; empty if there is none."""
        return min(self._prints.items() - self._fingerprints().items(), default=("", ()))[0]

    def begin(self) -> list[torch.Tensor]:
        """Begin a verification, and return the tensors that each of its calls has to find as they are now.

        Arguments and gradients have their values from before the timing; a gradient that a call has made is
        zero, for the calls of a graph that add to it, unless it is an argument or a state. States stay as the
        timing has left them: a callable that works only in its first calls must not find the count of its
        calls restored.
        """
        made = [leaf.grad for leaf, former in self._gradients if leaf.grad is not former]
        dense = [one for one in made if one is not None and one.layout == torch.strided]
        new = [one for one in dense if one.untyped_storage().data_ptr() not in self._own]
        of_calls = [alias(one).zero_() for one in new]
        _restore((*self._arguments, *self._of_gradients))
        self.put_back_gradients()
        return [*of_calls, *(one for one, _ in (*self._of_gradients, *self._states))]

    def restore(self) -> None:
        """Write the values from before the timing, and set generators of the call's own back."""
        _restore((*self._arguments, *self._of_gradients, *self._states))
        self.put_back_gradients()
        for one, state in self._generators:
            one.set_state(state)

    def put_back_gradients(self) -> None:
        """Give the leaves the gradients that they had, or none."""
        for leaf, gradient in self._gradients:
            leaf.grad = gradient

    def _changed_by_a_call(self, reached: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the allocations that one plain call changes or makes, besides arguments and gradients."""
        prints = {at: fingerprint(one) for at, one in self._others(reached).items()}
        if not prints:
            return []
        with library_unchanged():
            finish(self._call())
        self.put_back_gradients()
        found = self._others(in_reach(self._call.fn, self._call.args, self._call.kwargs)[0])
        self._own |= found.keys()
        changed = [one for at, one in found.items() if prints.get(at) != fingerprint(one)]
        return [bytes_of(one.untyped_storage()) for one in changed]

    def _copies(self, tensors: list[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return tensors with copies on the host; none if they are too large."""
        self._left_bytes -= sum(one.nbytes for one in tensors)
        if self._left_bytes < 0:
            return []
        return list(map(_with_copy, tensors))

    def _others(self, tensors: Iterable[torch.Tensor]) -> dict[int, torch.Tensor]:
        """Return the tensors that are neither arguments nor gradients, one for each allocation."""
        found = _by_address(tensors)
        return {
            at: one
            for at, one in found.items()
            if at not in self._own and (one.is_cuda or one.untyped_storage().nbytes() <= MOST_HOST_BYTES)
        }

    def _fingerprints(self) -> dict[str, tuple[int, ...]]:
        """Return sums over the arguments that the callable may not write to; none if that is not known."""
        call = self._call
        if call.reference is None or call.reference.mutates is True:
            return {}
        named = {f"argument {key}" for key in call.reference.mutates or ()}
        tensors = tensors_of(call.args, call.kwargs)
        # An argument that may be written can share its memory with others.
        written = _by_address(one for name, one in tensors.items() if argument_of(name) in named)
        return {
            name: fingerprint(one)
            for name, one in tensors.items()
            if one.untyped_storage().data_ptr() not in written
        }


def _with_copy(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return tensor, tensor.detach().to("cpu", copy=True)


def _restore(copies: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for tensor, first in copies:
        alias(tensor).copy_(first)


def _by_address(tensors: Iterable[torch.Tensor]) -> dict[int, torch.Tensor]:
    return {one.untyped_storage().data_ptr(): one for one in tensors if one.untyped_storage().nbytes()}


def in_reach(*roots: object) -> tuple[list[torch.Tensor], list[torch.Generator]]:
    """Return what closures, attributes, containers, classes and names in the code lead to.

    Not by the garbage collector's list of objects: it leaves out what `gc.freeze` has put aside.

    Returns:
        Strided tensors, and generators of random numbers.
    """
    found: list[torch.Tensor] = []
    generators: list[torch.Generator] = []
    seen: dict[int, object] = {}  # with the objects: the id of one that is gone can be that of another one
    ahead: deque[Any] = deque(roots)
    while ahead and len(seen) < MOST_OBJECTS:
        one = ahead.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        if type(one) in PLAIN:
            found.append(one)
        elif issubclass(type(one), torch.Generator):  # `isinstance` would ask a proxy
            generators.append(one)
        elif type(one) is FunctionType:
            ahead += [one.__closure__, one.__defaults__, one.__kwdefaults__, vars(one), *_named(one)]
        elif issubclass(type(one), type):
            # What a class leads to comes last: its methods lead far.
            ahead.extendleft([*vars(one).values(), *one.__bases__] if _is_of_project(one) else ())
        elif not (issubclass(type(one), _CLOSED) or _is_foreign(one)):
            ahead += gc.get_referents(one)
    tensors = [one for one in found if one.layout == torch.strided and one.device.type != "meta"]
    return tensors, generators


def _named(function: FunctionType) -> Iterator[object]:
    """Yield the global variables that a function names, and those of modules that it names."""
    names = function.__globals__
    if str(names.get("__name__")).partition(".")[0] in _OTHERS:
        return
    codes = [function.__code__]
    for code in codes:
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
    used = {name for code in codes for name in code.co_names}
    for name in used & names.keys():
        value = names[name]
        yield value
        if isinstance(value, ModuleType):
            yield from (vars(value)[one] for one in used & vars(value).keys())


def _is_of_project(kind: type) -> bool:
    """Return True for a class of the project: those of libraries lead to tens of thousands of objects."""
    package = _package(kind)
    return package not in {*_OTHERS, *sys.stdlib_module_names} and not is_installed(kind)


def _is_foreign(one: object) -> bool:
    """Return True for the variables of a module, and for objects of pytest, of this plugin and of Triton."""
    if type(one) is dict:
        return "__spec__" in one
    return _package(type(one)) in ("_pytest", "pytest", "pytest_gpuperf", "triton")


def _package(kind: type) -> str:
    # A class may say anything, and one of an extension nothing.
    return str(getattr(kind, "__module__", "")).partition(".")[0]
