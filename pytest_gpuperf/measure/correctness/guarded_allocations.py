"""Allocations of a call on a CPU between poisoned bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.compat.torch_names import dispatch_mode_type
from pytest_gpuperf.measure.correctness.poison import ALLOCATIONS
from pytest_gpuperf.measure.correctness.zones import Neighbour, Zone, memory_between

if TYPE_CHECKING:
    from collections.abc import Mapping

_BYTE = 0x5A
_ZONE = 4096


class GuardedAllocations(dispatch_mode_type()):  # type: ignore[misc]
    """Gives `torch.empty` and similar functions memory between red zones."""

    def __init__(self) -> None:
        super().__init__()
        self._buffers: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket not in ALLOCATIONS or not result.numel() or result.device.type != "cpu":
            return result
        size = result.untyped_storage().nbytes()
        buffer = torch.full((2 * _ZONE + size,), _BYTE, dtype=torch.uint8)
        memory = memory_between(buffer, _ZONE, _ZONE + size)
        self._buffers.append((buffer, memory))
        return torch.empty(0, dtype=result.dtype).set_(
            memory.untyped_storage(), 0, result.shape, result.stride()
        )

    def zones(self, outputs: Mapping[int, Neighbour]) -> list[Zone]:
        """Return the red zones.

        Args:
            outputs: The outputs of the call, by the address of their memory.
        """
        zones = []
        for buffer, memory in self._buffers:
            size = memory.numel()
            beside = outputs.get(memory.data_ptr(), Neighbour(f"{size} bytes that it allocated"))
            zones.append(Zone(buffer[:_ZONE], _BYTE, after=beside))
            zones.append(Zone(buffer[_ZONE + size :], _BYTE, before=beside))
        return zones
