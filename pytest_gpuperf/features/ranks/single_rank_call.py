"""A call on one rank: its arguments, the barrier before it, and numbers on which all ranks agree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from pytest_gpuperf.features.ranks.callable_transfer import unpacked
from pytest_gpuperf.measure.device.originals import finish
from pytest_gpuperf.records.call import made_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.features.ranks.messages import RankWork


@dataclass(frozen=True)
class RankedCall:
    """A callable with its arguments on this rank."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    make_expected: Callable[[], Any]
    rank: int
    world: int
    device: torch.device
    doing: Callable[[str], None]
    """Tells the session what this rank does."""
    token: torch.Tensor
    """Tensor of the barrier."""

    @classmethod
    def of(cls, work: RankWork, rank: int, world: int, doing: Callable[[str], None]) -> RankedCall:
        """Import the callables, and make the arguments: all ranks do so at the same time.

        Raises:
            GpuperfError: The factory returned something else than arguments.
        """
        on_gpu = distributed.get_backend() == "nccl"
        device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        doing("imports")
        fn, inputs, *reference = unpacked(work)
        doing("makes its arguments")
        with device:
            args, kwargs = made_arguments(partial(inputs, rank, world), work.seed)

        def make_expected() -> Any:
            with device:
                return reference[0](rank, world, work.seed)

        token = torch.zeros(1, device=device)
        return cls(fn, args, kwargs, make_expected, rank, world, device, doing, token)

    def __call__(self) -> Any:
        """Call it."""
        return self.fn(*self.args, **self.kwargs)

    @property
    def on_gpu(self) -> bool:
        """True if it runs on a GPU."""
        return self.device.type == "cuda"

    def barrier(self) -> None:
        """Let no rank go on before all have come here: on a GPU its stream waits, not the host."""
        distributed.all_reduce(self.token)

    def meet(self) -> None:
        """Wait for this rank's work, then for the other ranks."""
        finish()
        self.barrier()
        finish()

    def largest(self, *numbers: float) -> list[float]:
        """Return the largest over the ranks of each number."""
        both = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        distributed.all_reduce(both, op=distributed.ReduceOp.MAX)
        found: list[float] = both.tolist()
        return found
