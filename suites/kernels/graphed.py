"""A callable as one CUDA graph: its kernels are launched together, for the price of a launch or so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


class Graphed:
    """Captures what a callable launches at the first call, and replays that at each later one.

    The outputs are the same tensors each time, and the arguments have to be too. Nothing is captured before
    the first call, so that there need be no GPU to make one of these.
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
            # What is compiled or allocated once must not happen inside.
            self._fn(*args)
            torch.cuda.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._outputs = self._fn(*args)
        self._graph.replay()
        return self._outputs
