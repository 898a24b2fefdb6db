"""Red zones of poisoned bytes next to tensors, and the description of a write into one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.measure.device.memory import bytes_at

if TYPE_CHECKING:
    from collections.abc import Sequence

ALIGNMENT = 512
"""Bytes by which torch aligns memory on a GPU (`kMinBlockSize` in c10/core/AllocatorConfig.h)."""


@dataclass(frozen=True)
class Neighbour:
    """A tensor next to a red zone."""

    name: str
    itemsize: int = 0
    """Bytes of an element; 0 if unknown."""

    def distance(self, skipped: int) -> str:
        """Return `1 element` for no byte between the tensor and a changed one."""
        unit = "element" if self.itemsize else "byte"
        count = skipped // (self.itemsize or 1) + 1
        return f"{count} {unit}{'s' * (count > 1)}"


@dataclass(frozen=True)
class Zone:
    """Bytes that nobody may write."""

    memory: torch.Tensor
    """The bytes."""
    byte: int
    """Their value."""
    before: Neighbour | None = None
    """The tensor that ends at the first byte."""
    after: Neighbour | None = None
    """The tensor that begins behind the last byte."""

    def changed(self) -> torch.Tensor:
        """Return, on the device, if a byte has changed."""
        return (self.memory != self.byte).any()

    def describe(self) -> str:
        """Describe the changed bytes: their number, and the distance from the nearest tensor."""
        places = (self.memory != self.byte).nonzero().flatten()
        past, ahead = int(places[0]), self.memory.numel() - 1 - int(places[-1])
        changed = f"{len(places)} byte{'s' * (len(places) > 1)} changed, the nearest"
        if self.before is not None and (self.after is None or past <= ahead):
            return f"{changed} {self.before.distance(past)} past the end of {self.before.name}"
        if self.after is not None:
            return f"{changed} {self.after.distance(ahead)} before {self.after.name}"
        return f"{len(places)} bytes changed that belong to no tensor"


def written(zones: Sequence[Zone]) -> list[str]:
    """Describe each red zone that was written."""
    by_device: dict[torch.device, list[Zone]] = {}
    for zone in zones:
        if zone.memory.numel():
            by_device.setdefault(zone.memory.device, []).append(zone)
    found = []
    for same in by_device.values():
        # One wait for the device, however many zones there are.
        flags = torch.stack([zone.changed() for zone in same]).tolist()
        found += [zone.describe() for zone, flag in zip(same, flags, strict=True) if flag]
    return found


def memory_between(buffer: torch.Tensor, begin: int, end: int) -> torch.Tensor:
    """Return bytes of a buffer as memory of their own: its storage has exactly these bytes.

    A view of the buffer would have another storage offset, for which torch.compile compiles again. The buffer
    has to stay alive.
    """
    if buffer.is_cuda:
        return bytes_at(buffer.data_ptr() + begin, end - begin, buffer.device)
    return torch.from_numpy(buffer.numpy()[begin:end])
