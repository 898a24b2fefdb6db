"""Wait for the work of a call: on all streams, and by libraries that launch from threads of their own."""

from __future__ import annotations

import sys


def wait_for_launches(value: object) -> None:
    """Wait for the result of a call if JAX may still have to launch its work."""
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "block_until_ready"):
        jax.block_until_ready(value)


def finish(value: object = None) -> None:
    """Wait until the GPU has finished all work of this process, with that for the result of a call."""
    import torch

    from pytest_gpuperf.measure.device import originals

    wait_for_launches(value)
    if torch.cuda.is_available():
        originals.synchronize()
