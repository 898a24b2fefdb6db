"""A GPU with one stream, on which each launch takes a known time: exact times without a GPU."""

from __future__ import annotations

import warnings
import weakref
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.activity import Activity
from pytest_gpuperf.measure.device import memory, originals
from pytest_gpuperf.measure.timing import batch, batch_preparation, graph, sm_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

CYCLES_PER_US = 2000
STREAM = 7
"""Handle of the stream."""
GRAPH_US = 5.0
"""Time of the host to launch a graph."""


class Memory:
    """Memory of a simulated GPU, in bytes."""

    def __init__(self, size: int) -> None:
        self.size = size


class SimulatedGpu:
    """The functions of `torch.cuda` that timing uses, and a clock that only they move.

    Attributes:
        now: Time of the host, in microseconds.
        log: Steps, in order.
        host_us: Time of the host for one launch.
        memory_bytes: Size of its memory.
        on_capture: Called with the name of each captured kernel.
        caches: False if torch does not cache memory.
        sync_debug_mode: torch's, in which `copy_to_host` warns.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.log: list[str] = []
        self.host_us = 1.0
        self.memory_bytes = 1000
        self.on_capture: Callable[[str], object] = lambda _: None
        self.caches = True
        self.sync_debug_mode: object = 0
        self._allocated: weakref.WeakSet[Memory] = weakref.WeakSet()
        self._free = 0.0
        self._captured: list[tuple[str, float]] | None = None
        self._activities: list[Activity] = []
        replaced = {
            "CUDAGraph": lambda: _Graph(self),
            "graph_pool_handle": lambda: (0, 1),
            "memory_snapshot": lambda: [
                {"segment_pool_id": (0, 1), "blocks": [{"state": "active_allocated"}]}
                for _ in self._allocated
            ],
            "graph": self._capture,
            "stream": lambda _: nullcontext(),
            "current_stream": lambda: SimpleNamespace(cuda_stream=0),
            "is_available": lambda: True,
            "current_device": lambda: 0,
            "default_generators": (torch.Generator(),),
            "get_sync_debug_mode": lambda: self.sync_debug_mode,
            "get_allocator_backend": lambda: "simulated",
            "set_sync_debug_mode": lambda mode: setattr(self, "sync_debug_mode", mode),
        }
        for name, function in replaced.items():
            patch.setattr(torch.cuda, name, function)
        functions = {
            "now": lambda: self.now / 1e6,
            "synchronize": self.synchronize,
            "event": lambda: _Event(self),
            "record": lambda event, stream=None: event.record(stream),
            "has_passed": lambda event: event.has_passed(),
            "elapsed_us": lambda start, end: start.elapsed_us(end),
            "current_stream": lambda: SimpleNamespace(cuda_stream=0),
            "replay": lambda graph: graph.replay(),
            "sleep_on_gpu": lambda cycles: self.launch(cycles / CYCLES_PER_US, "spin_kernel"),
            "zero": lambda tensor: tensor.zero_(),
        }
        for name, function in functions.items():
            patch.setattr(originals, name, function)
        patch.setattr(memory, "reset_l2", lambda: None)
        patch.setattr(graph, "free_bytes", lambda: self.free_bytes)
        patch.setattr(graph, "_stream", lambda device: device)
        patch.setattr(sm_clock, "time", SimpleNamespace(sleep=self._rest))
        patch.setattr(batch, "recorded", self._recorded)
        patch.setattr(batch_preparation, "detach", lambda: self.log.append("detach"))

    def kernel(self, us: float, name: str = "k") -> Callable[[], None]:
        """Return a function that launches a kernel."""
        return lambda: self.launch(us, name)

    def copy_to_host(self) -> None:
        """Wait for the GPU within torch, as `Tensor.item` does.

        Raises:
            RuntimeError: During a capture.
        """
        if self.sync_debug_mode == "warn":
            warnings.warn("called a synchronizing CUDA operation (Triggered internally)", stacklevel=1)
        self.synchronize()

    def launch(self, us: float, name: str = "k") -> None:
        """Launch a kernel, or add it to the graph that is captured."""
        if self._captured is not None:
            self._captured.append((name, us))
            self.on_capture(name)
            return
        self.log.append(f"{name} {us:g}")
        self.now += self.host_us
        self._run([(name, us)])

    @property
    def free_bytes(self) -> int:
        """Bytes that nothing holds."""
        return self.memory_bytes - sum(one.size for one in self._allocated)

    def allocate(self, size: int) -> Memory:
        """Return memory, until it is no longer used.

        Raises:
            RuntimeError: torch asks CUDA for it during a capture.
            torch.cuda.OutOfMemoryError: There is too little.
        """
        if self._captured is not None and not self.caches:
            raise RuntimeError("operation not permitted when stream is capturing")
        if size > self.free_bytes:
            raise torch.cuda.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size}.00 B. GPU 0 has")
        self._allocated.add(found := Memory(size))
        return found

    @property
    def captures(self) -> bool:
        """True during a capture."""
        return self._captured is not None

    def synchronize(self) -> None:
        """Wait for the GPU."""
        if self._captured is not None:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        self.log.append("synchronize")
        self.now = max(self.now, self._free)

    def done_at(self) -> float:
        """Return the time at which the GPU has done all work so far."""
        return max(self.now, self._free)

    def replay(self, nodes: list[tuple[str, float]]) -> None:
        """Run the kernels of a graph."""
        self.log.append("graph of " + ", ".join(f"{name} {us:g}" for name, us in nodes))
        self.now += GRAPH_US
        self._run(nodes)

    def _run(self, nodes: list[tuple[str, float]]) -> None:
        for name, us in nodes:
            begin = self.done_at()
            self._free = begin + us
            self._activities.append(Activity(round(begin * 1e3), round(self._free * 1e3), name))

    def _rest(self, seconds: float) -> None:
        self.log.append(f"rest {seconds:g}")
        self.now += seconds * 1e6

    @contextmanager
    def _capture(
        self, graph: _Graph, capture_error_mode: str, pool: tuple[int, int] | None, stream: int
    ) -> Iterator[None]:
        # In another mode, a thread of the program that allocates would break the capture.
        assert capture_error_mode == "thread_local"
        self.log.append("capture")
        assert (
            stream == torch.cuda.current_device()
        )  # torch's own stream is of the device that captured first
        self._captured = graph.nodes
        try:
            yield
        finally:
            self._captured = None
        if not graph.nodes:
            warnings.warn("The CUDA Graph is empty.", stacklevel=1)

    @contextmanager
    def _recorded(self, *, stay: bool = False, serial: bool = False) -> Iterator[list[Activity]]:
        self._activities = []
        found: list[Activity] = []
        yield found
        found.extend(self._activities)


class SimulatedStamps:
    """Stamps that take 2 µs each, at 1500 MHz."""

    cost_us = 4.0

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.before = self.after = gpu.kernel(2.0, "gpuperf_stamp")

    def sm_clock_mhz(self) -> float:
        """Return the clock."""
        return 1500.0


def install_kernels(patch: pytest.MonkeyPatch, **kernels: Callable[[int, int], None]) -> None:
    """Replace the kernels of our own by functions of their argument and blocks; the driver refuses others."""

    def launch(name: str, argument: int, stream: int, blocks: int = 1) -> None:
        assert stream == STREAM
        if name not in kernels:
            raise GpuperfError(f"the driver refuses {name}")
        kernels[name](argument, blocks)

    patch.setattr("pytest_gpuperf.measure.device.driver.launch", launch)
    patch.setattr(originals, "current_stream", lambda: SimpleNamespace(cuda_stream=STREAM))


class _Event:
    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu
        self.at = -1.0

    def record(self, _stream: object) -> None:
        self._gpu.log.append("record")
        self.at = self._gpu.done_at()

    def elapsed_us(self, end: _Event) -> float:
        assert self.at >= 0
        assert end.at >= 0
        return end.at - self.at

    def has_passed(self) -> bool:
        return self._gpu.now >= self.at


class _Graph:
    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu
        self.nodes: list[tuple[str, float]] = []

    def pool(self) -> tuple[int, int]:
        return 0, 1

    def replay(self) -> None:
        self._gpu.replay(self.nodes)
