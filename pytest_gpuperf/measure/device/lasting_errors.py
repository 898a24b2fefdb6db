"""Errors of the GPU that outlive the test that caused them."""

from __future__ import annotations

import sys
from typing import Any


def why_broken() -> str:
    """Return the CUDA error that every later call of this process will meet; empty if there is none.

    Waits for the GPU, so that the error of a kernel belongs to the test that launched it.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return ""
    # CUDA forgets other errors once it has told them.
    return _error_of(torch) and _error_of(torch)


def _error_of(torch: Any) -> str:
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        return str(error).partition("\n")[0]
    return ""
