"""The GPUs of a worker: the resources that it announces, and the hand-out of each to one task."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.device.visible_gpus import visible_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.measure.device.visible_gpus import VisibleGpu


def resources() -> dict[str, int]:
    """Return the GPUs as resources of Dask: the number of each model, and 1 for each UUID."""
    gpus = visible_gpus()
    slugs = [gpu.slug for gpu in gpus]
    models = {slug: slugs.count(slug) for slug in slugs}
    return {**models, **{gpu.uuid: 1 for gpu in gpus}}


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
