"""Hold a GPU: for a while copies can begin, but no kernel."""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.measure.device import driver, originals
from pytest_gpuperf.measure.device.memory import bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_THREADS = 512
"""Threads of a block: all GPUs of these PTX versions have places for a multiple of it."""
_PART_BYTES = 4096
_MOST_OUTPUTS = 32
"""Outputs of a call that are read early: their copies have to begin before the other streams go on."""
_STREAMS = 32
"""Streams of each priority that torch gives away in turn (`kStreamsPerPool` in c10/cuda/CUDAStream.cpp)."""
_DELAY_CYCLES = 4_000_000
"""About 2 ms."""


def streams_of_torch(device: torch.device) -> list[torch.cuda.Stream]:
    """Return all streams that `torch.cuda.Stream()` gives away, in turn: the next one stays the next."""
    return [torch.cuda.Stream(device, priority=at) for at in (0, -1) for _ in range(_STREAMS)]  # type: ignore[no-untyped-call]


@cache
def held_gpu(device: int) -> HeldGpu:
    """Return a device that can be held; the driver keeps the kernel.

    Raises:
        GpuperfError: The driver refuses the kernel.
    """
    return HeldGpu(device)


class HeldGpu:
    """A device that a kernel on a stream of its own can hold.

    Args:
        device: Its index, that of the current device.

    Raises:
        GpuperfError: The driver refuses the kernel.
    """

    def __init__(self, device: int) -> None:
        self.device = torch.device("cuda", device)
        found = torch.cuda.get_device_properties(self.device)
        self._blocks = found.multi_processor_count * (found.max_threads_per_multi_processor // _THREADS)
        self._kernel = driver.kernel(driver.HOLD, device)
        self._stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        # The GPU reads and writes this memory of the host. Allocating it while the GPU is held would wait.
        self._control = torch.zeros(2, dtype=torch.int64, pin_memory=True)
        self._parts = torch.empty(2 * _MOST_OUTPUTS, _PART_BYTES, dtype=torch.uint8, pin_memory=True)

    def hold(self, microseconds: float) -> None:
        """Let no kernel of this process begin until `release`, and on torch's other streams until 2 ms later.

        Args:
            microseconds: Longest time, for a call that waits for the GPU.
        """
        self._control[0], self._control[1] = 0, round(1e3 * microseconds)
        stream = self._stream.cuda_stream
        self._kernel.launch(self._blocks, _THREADS, self._control.data_ptr(), stream=stream)
        current = torch.cuda.current_stream()
        for other in streams_of_torch(self.device):
            if other != current:
                with torch.cuda.stream(other):
                    originals.sleep_on_gpu(_DELAY_CYCLES)

    def release(self) -> None:
        """Let kernels begin."""
        self._control[0] = 1

    def is_idle(self) -> bool:
        """Return True if nothing waits on torch's current stream."""
        return originals.is_idle()

    def read(self, tensors: Sequence[torch.Tensor]) -> Callable[[], list[bytes]]:
        """Let the copy engine read parts of the first tensors, in the order of the current stream.

        It needs no multiprocessor, so it can do so while the GPU is held.

        Returns:
            Function that returns the first and the last bytes of each, once the GPU has finished.
        """
        sizes = []
        for at, part in enumerate(chain.from_iterable(map(_ends, tensors[:_MOST_OUTPUTS]))):
            self._parts[at, : part.numel()].copy_(part, non_blocking=True)
            sizes.append(part.numel())
        return lambda: [self._parts[at, :size].numpy().tobytes() for at, size in enumerate(sizes)]


def _ends(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the first and the last bytes of a tensor's memory."""
    memory, size = bytes_of(tensor.untyped_storage()), tensor.element_size()
    start = tensor.storage_offset() * size
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    end = start + (last + 1) * size
    yield memory[start : min(end, start + _PART_BYTES)]
    yield memory[max(start, end - _PART_BYTES) : end]
