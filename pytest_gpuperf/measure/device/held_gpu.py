"""Hold a GPU: for a while copies can begin, but no kernel."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.measure.device import kept
from pytest_gpuperf.measure.device.driver import Driver
from pytest_gpuperf.measure.device.memory import bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "gpuperf_hold"
# Each block waits for the same time; together they take all places for threads.
_PTX = f"""
.version 6.4
.target sm_70
.address_size 64
.visible .entry {_NAME}(.param .u64 nanoseconds)
{{
    .reg .pred %p;
    .reg .b64 %now, %end;
    ld.param.u64 %end, [nanoseconds];
    mov.u64 %now, %globaltimer;
    add.u64 %end, %end, %now;
again:
    nanosleep.u32 1000;
    mov.u64 %now, %globaltimer;
    setp.lt.u64 %p, %now, %end;
    @%p bra again;
    ret;
}}
"""
_THREADS = 512
"""Threads of a block: all GPUs of these PTX versions have places for a multiple of it."""
_PART_BYTES = 4096
_STREAMS = 32
"""Streams of each priority that torch gives away in turn (`kStreamsPerPool` in c10/cuda/CUDAStream.cpp)."""
_DELAY_CYCLES = 2_000_000
"""About 1 ms."""


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
        self._kernel = Driver().load(_PTX, _NAME)
        self._stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

    def hold(self, microseconds: float) -> None:
        """Let no other kernel of this process begin for this time, and 1 ms more on torch's other streams."""
        stream = self._stream.cuda_stream
        self._kernel.launch(self._blocks, _THREADS, round(1e3 * microseconds), stream=stream)
        current = torch.cuda.current_stream()
        for other in streams_of_torch(self.device):
            if other != current:
                with torch.cuda.stream(other):
                    kept.sleep_on_gpu(_DELAY_CYCLES)

    def is_idle(self) -> bool:
        """Return True if nothing waits on torch's current stream."""
        return kept.is_idle()

    def read(self, tensor: torch.Tensor) -> bytes:
        """Return the first and the last bytes of a tensor as the current stream finds them.

        The copy engine reads them, which needs no multiprocessor.
        """
        parts = [torch.empty_like(part, device="cpu", pin_memory=True) for part in _ends(tensor)]
        for part, source in zip(parts, _ends(tensor), strict=True):
            part.copy_(source, non_blocking=True)
        event = kept.event()
        kept.record(event)
        while not kept.has_passed(event):
            pass
        return b"".join(part.numpy().tobytes() for part in parts)


def _ends(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the first and the last bytes of a tensor's memory."""
    memory, size = bytes_of(tensor.untyped_storage()), tensor.element_size()
    start = tensor.storage_offset() * size
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    end = start + (last + 1) * size
    yield memory[start : min(end, start + _PART_BYTES)]
    yield memory[max(start, end - _PART_BYTES) : end]
