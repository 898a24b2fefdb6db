"""Arguments of a call: given by the test, or made by a factory for each use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict, replace

from pytest_gpuperf.errors import GpuperfError, show_repr
from pytest_gpuperf.records.call import Call, CheckedCall, Reference

if TYPE_CHECKING:
    from collections.abc import Collection

    Factory = Callable[[int], Any]


class Given(msgspec.Struct, frozen=True):
    """The callable and the arguments that a test gave to a method.

    Args:
        fn: The callable.
        args: Positional arguments.
        kwargs: Keyword arguments.
        inputs: Makes the arguments for a seed; None if the test gave them.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    inputs: Factory | None = None

    def __post_init__(self) -> None:
        if self.inputs is None:
            return
        if not callable(self.inputs):
            raise GpuperfError(
                f"inputs={show_repr(self.inputs)}",
                expected="a callable that takes a seed and returns the arguments",
            )
        if self.args or self.kwargs:
            raise GpuperfError(
                "both arguments and inputs=",
                expected="one of them: inputs= makes all arguments",
                next_step="let the callable that inputs= names return them too",
            )

    def call(self, nodeid: str, label: str, seed: int, *, makes: bool) -> Call:
        """Return the call, with arguments made for a seed.

        Args:
            nodeid: The test.
            label: Name of the measurement.
            seed: Seed of the arguments.
            makes: False if nothing is called, so that no arguments are needed.
        """
        if self.inputs is None or not makes:
            return Call(nodeid, label, self.fn, self.args, self.kwargs)
        factory = partial(made_arguments, self.inputs)
        args, kwargs = factory(seed)
        return Call(nodeid, label, self.fn, args, kwargs, inputs=factory, seed=seed)

    def is_like(self, other: Given) -> bool:
        """Return True for the same callable with the same arguments, or the same way to make them."""
        return (
            self.fn is other.fn
            and self.inputs is other.inputs
            and len(self.args) == len(other.args)
            and all(one is two for one, two in zip(self.args, other.args, strict=True))
            and self.kwargs.keys() == other.kwargs.keys()
            and all(value is other.kwargs[key] for key, value in self.kwargs.items())
        )


class Checked:
    """The checks of a test by label: what was checked is compared again after the timing."""

    def __init__(self) -> None:
        self._checks: dict[str, tuple[Given, Reference]] = {}

    def add(self, label: str, given: Given, reference: Reference) -> None:
        """Keep a check."""
        self._checks[label] = given, reference

    def clear(self) -> None:
        """Forget all checks, with their tensors."""
        self._checks.clear()

    def with_reference(
        self, call: Call, given: Given, mutates: bool | Collection[int | str] | None = None
    ) -> Call:
        """Return the call with the reference of its check, if it was checked under this label.

        Args:
            call: The call.
            given: What the test gave.
            mutates: Arguments that the callable may write to; None for those of the check.
        """
        checked, reference = self._checks.get(call.label, (None, None))
        if checked is None or reference is None or not given.is_like(checked):
            reference = None
        else:
            reference = self._fitting(call, reference)
        if mutates is not None:
            reference = replace(reference or Reference(None), mutates=mutates)
        return call if reference is None else CheckedCall(**asdict(call), reference=reference)

    @staticmethod
    def _fitting(call: Call, reference: Reference) -> Reference:
        """Return the reference; its tensors belong to the arguments of the check, not to other ones."""
        return (
            replace(reference, expected=None)
            if call.inputs and not callable(reference.expected)
            else reference
        )


def made_arguments(inputs: Factory, seed: int) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Call a factory, and return positional and keyword arguments.

    Raises:
        GpuperfError: It returned something else than arguments.
    """
    made = inputs(seed)
    if isinstance(made, Mapping):
        return (), made
    if isinstance(made, (tuple, list)):
        if len(made) == 2 and isinstance(made[0], (tuple, list)) and isinstance(made[1], Mapping):
            return tuple(made[0]), made[1]
        return tuple(made), {}
    raise GpuperfError(
        f"inputs= returned a {type(made).__name__}",
        expected="a tuple of positional arguments, a dict of keyword arguments, or a tuple of both",
        next_step="write `return (x,)` for one argument",
    )
