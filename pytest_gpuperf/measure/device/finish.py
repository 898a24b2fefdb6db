"""Wait for the work of a call: on all streams, and by libraries that launch from threads of their own."""

from __future__ import annotations

import sys

import torch


def finish(value: object = None) -> None:
    """Wait until the GPU has finished all work of this process.

    Args:
        value: The result of a call; JAX may still have to launch the work for it.
    """
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "block_until_ready"):
        jax.block_until_ready(value)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
