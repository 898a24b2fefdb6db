"""Values of the arguments before a timing: those that must stay, and those that each call changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.measure.verification.values import alias, fingerprint, tensors_of
from pytest_gpuperf.records.call import CheckedCall

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.records.call import Call

MOST_BYTES = 256 << 20
"""Memory that a copy to the host and back moves in some tens of milliseconds."""


def fingerprints(call: Call) -> dict[str, tuple[int, ...]]:
    """Return sums over the arguments that the callable may not write to; none if that is not known."""
    return {name: fingerprint(tensor) for name, tensor in _fingerprinted(call).items()}


def _fingerprinted(call: Call) -> dict[str, torch.Tensor]:
    if not isinstance(call, CheckedCall) or call.reference.mutates is True:
        return {}
    named = {f"argument {key}" for key in call.reference.mutates or ()}
    tensors = tensors_of(call.args, call.kwargs)
    # An argument that may be written can share its memory with others.
    written = {
        one.untyped_storage().data_ptr() for name, one in tensors.items() if name.partition("[")[0] in named
    }
    return {name: one for name, one in tensors.items() if one.untyped_storage().data_ptr() not in written}


class WrittenValues:
    """Copies of the arguments that a checked callable may write to: each timed call changes them.

    The copies lie in the memory of the host, so that the memory of the timed calls is where it would be.

    Args:
        call: The call.
    """

    def __init__(self, call: Call) -> None:
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        if not isinstance(call, CheckedCall):
            return
        unwritten = _fingerprinted(call)
        written = [one for name, one in tensors_of(call.args, call.kwargs).items() if name not in unwritten]
        if sum(one.nbytes for one in written) <= MOST_BYTES:
            self._copies = [(one, one.detach().to("cpu", copy=True)) for one in written]

    def restore(self) -> None:
        """Write the values from before the timing."""
        for tensor, first in self._copies:
            alias(tensor).copy_(first)
