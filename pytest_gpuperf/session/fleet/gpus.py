"""GPUs of a host that this process may use, without torch, and the hand-out of each to one task."""

from __future__ import annotations

import os
import re
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import pynvml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class VisibleGpu(NamedTuple):
    """One GPU, or a slice of one."""

    uuid: str
    slug: str


def visible_gpus() -> list[VisibleGpu]:
    """Return the GPUs of `CUDA_VISIBLE_DEVICES`, or all; none without a driver."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        every = range(pynvml.nvmlDeviceGetCount())
        entries = list(map(str, every)) if named is None else [one.strip() for one in named.split(",")]
        return [gpu for entry in entries if entry for gpu in _gpu(entry)]
    return []


def _gpu(entry: str) -> list[VisibleGpu]:
    with suppress(pynvml.NVMLError):
        by_index = entry.isdecimal()
        handle = (
            pynvml.nvmlDeviceGetHandleByIndex(int(entry))
            if by_index
            else pynvml.nvmlDeviceGetHandleByUUID(entry)
        )
        name = str(pynvml.nvmlDeviceGetName(handle))
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        return [VisibleGpu(str(pynvml.nvmlDeviceGetUUID(handle)) if by_index else entry, slug)]
    return []


class Pool:
    """The GPUs of a worker; each is of one task at a time.

    Args:
        gpus: The GPUs.
    """

    def __init__(self, gpus: Sequence[VisibleGpu]) -> None:
        self._free = list(gpus)
        self._models = {gpu.slug for gpu in gpus}
        self._changed = threading.Condition()

    @contextmanager
    def take(self, model: str, count: int) -> Iterator[list[str]]:
        """Take GPUs of a model while the block runs, and wait for them if they are not free.

        Yields:
            Their UUIDs; none if this host has no GPU of the model.
        """
        with self._changed:
            self._changed.wait_for(lambda: model not in self._models or len(self._of(model)) >= count)
            taken = self._of(model)[:count]
            self._free = [gpu for gpu in self._free if gpu not in taken]
        try:
            yield [gpu.uuid for gpu in taken]
        finally:
            with self._changed:
                self._free += taken
                self._changed.notify_all()

    def _of(self, model: str) -> list[VisibleGpu]:
        return [gpu for gpu in self._free if gpu.slug == model]


def resources() -> dict[str, int]:
    """Return the GPUs as resources of Dask: the number of each model, and 1 for each UUID."""
    gpus = visible_gpus()
    models = {slug: sum(gpu.slug == slug for gpu in gpus) for _, slug in gpus}
    return {**models, **{gpu.uuid: 1 for gpu in gpus}}
