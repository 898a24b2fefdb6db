"""Functions by which other libraries call NVRTC, with the loss without them."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FUNCTIONS = {"cupy.cuda.compiler": "compile_using_nvrtc", "torch.cuda._utils": "_nvrtc_compile"}
"""By module. CuPy calls its own only for what it does not find on disk."""


@contextmanager
def compilations_noted(note: Callable[[float, int, int], object]) -> Iterator[None]:
    """Watch CuPy's `compile_using_nvrtc` and torch's `_nvrtc_compile`; else their compilations are not noted.

    Args:
        note: Gets the seconds of a compilation, 1 and 0.
    """

    def timed(compiles: Callable[..., Any]) -> Callable[..., Any]:
        def compile_source(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            result = compiles(*args, **kwargs)
            note(time.perf_counter() - begin, 1, 0)
            return result

        return compile_source

    with ExitStack() as stack:
        for module, name in _FUNCTIONS.items():
            if compiles := getattr(sys.modules.get(module), name, None):
                stack.enter_context(patch.object(sys.modules[module], name, timed(compiles)))
        yield
