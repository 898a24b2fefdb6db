"""Callable as one CUDA graph: its kernels are launched together, for about the cost of one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


class Graphed:
    """Graph that captures a callable's launches at the first call and replays them at each call.

    Outputs are the same tensors each time, and arguments must be too. Creating an instance needs no GPU,
    because nothing is captured before the first call.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        self._graph: torch.cuda.CUDAGraph | None = None
        self._outputs: Any = None

    def __call__(self, *args: Any) -> Any:
        """Launch the graph."""
        if torch.cuda.is_current_stream_capturing():
            # A graph cannot be replayed while another is captured.
            return self._fn(*args)
        if self._graph is None:
            # One-time compilation and allocation must happen before the capture.
            self._fn(*args)
            torch.cuda.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._outputs = self._fn(*args)
        self._graph.replay()
        return self._outputs
