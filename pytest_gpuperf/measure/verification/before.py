"""Values before a timing: of arguments that must stay, and of all that each call writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.measure.device.finish import finish
from pytest_gpuperf.measure.device.kept import library_unchanged
from pytest_gpuperf.measure.device.memory import bytes_of
from pytest_gpuperf.measure.verification.reach import tensors_in_reach
from pytest_gpuperf.measure.verification.values import alias, fingerprint, tensors_of
from pytest_gpuperf.records.call import CheckedCall

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

    from pytest_gpuperf.records.call import Call

MOST_BYTES = 256 << 20
"""Memory that a copy to the host and back moves in some tens of milliseconds."""
MOST_HOST_BYTES = 1 << 20
"""Largest tensor of the host that is looked at, such as the steps of an optimizer."""


class Before:
    """What a timing may write, with its values from before.

    These are the arguments that a checked callable may write to, gradients, and what one plain call shows:
    buffers of modules, states of optimizers, caches. It also makes what is made once; such values are
    restored to those after that call. The copies lie in the memory of the host, so that the memory of the
    timed calls is where it would be.

    Args:
        call: The call. It is called once if it can reach other tensors than its arguments.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._prints = self._fingerprints()
        arguments = tensors_of(call.args, call.kwargs)
        self._own = set(_by_address(arguments.values()))
        reached = self._reached()
        self.gradients = [(one, one.grad) for one in reached if one.is_leaf and one.requires_grad]
        """Leaves of graphs of autograd, each with its gradient."""
        self.written: list[torch.Tensor] = []
        """Tensors that a call writes, besides arguments. Gradients that calls have made are among them."""
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        if isinstance(call, CheckedCall):
            self._save([one for name, one in arguments.items() if name not in self._prints])
        gradients = [grad for _, grad in self.gradients if grad is not None]
        if self._save(gradients):
            self.written += gradients
        self._own |= _by_address(gradients).keys()
        others = self._others(reached)
        if others:
            prints = {at: fingerprint(one) for at, one in others.items()}
            with library_unchanged():
                finish(call())
            self.put_back_gradients()
            found = self._others(self._reached())
            changed = [
                bytes_of(one.untyped_storage())
                for at, one in found.items()
                if prints.get(at) != fingerprint(one)
            ]
            if self._save(changed):
                self.written += changed

    def changed_argument(self) -> str:
        """Name an argument that the callable may not write to and has written; empty if there is none."""
        return min(self._prints.items() - self._fingerprints().items(), default=("", ()))[0]

    def restore(self) -> None:
        """Write the values from before the timing; gradients that calls have made become zero."""
        for tensor, first in self._copies:
            alias(tensor).copy_(first)
        for leaf, gradient in self.gradients:
            if leaf.grad is not None and leaf.grad is not gradient:
                self.written.append(alias(leaf.grad).zero_())
        self.put_back_gradients()

    def put_back_gradients(self) -> None:
        """Give the leaves the gradients that they had, or none."""
        for leaf, gradient in self.gradients:
            leaf.grad = gradient

    def _save(self, tensors: list[torch.Tensor]) -> bool:
        """Copy tensors to the host, and return True, unless they are too large."""
        fits = sum(one.nbytes for one, _ in self._copies) + sum(one.nbytes for one in tensors) <= MOST_BYTES
        if fits:
            self._copies += [(one, one.detach().to("cpu", copy=True)) for one in tensors]
        return fits

    def _reached(self) -> list[torch.Tensor]:
        return tensors_in_reach(self._call.fn, self._call.args, self._call.kwargs)

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
        if not isinstance(call, CheckedCall) or call.reference.mutates is True:
            return {}
        named = {f"argument {key}" for key in call.reference.mutates or ()}
        tensors = tensors_of(call.args, call.kwargs)
        # An argument that may be written can share its memory with others.
        written = _by_address(one for name, one in tensors.items() if name.partition("[")[0] in named)
        return {
            name: fingerprint(one)
            for name, one in tensors.items()
            if one.untyped_storage().data_ptr() not in written
        }


def _by_address(tensors: Iterable[torch.Tensor]) -> dict[int, torch.Tensor]:
    return {one.untyped_storage().data_ptr(): one for one in tensors if one.untyped_storage().nbytes()}
