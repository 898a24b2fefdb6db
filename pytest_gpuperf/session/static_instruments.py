"""Instruments of a machine that has neither a GPU nor a recording: they compile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import torch

    from pytest_gpuperf.errors import GpuperfError
    from pytest_gpuperf.records import Correctness, Profile, StaticKernel, Timing, Trace, WarmUp
    from pytest_gpuperf.records.call import Call, Reference
    from pytest_gpuperf.records.selection import Selection


class StaticInstruments:
    """Compiles, for which there need be no GPU.

    Args:
        missing: What is said of everything else.
    """

    def __init__(self, missing: GpuperfError) -> None:
        self._missing = missing

    @property
    def device(self) -> torch.device:
        """`meta`: tensors have the shapes and types that a compiler asks for."""
        import torch

        return torch.device("meta")

    def check(self, call: Call, reference: Reference) -> Correctness:  # noqa: ARG002
        """Nothing runs here."""
        raise self._missing

    def warm_up(self, call: Call) -> WarmUp:  # noqa: ARG002
        """Nothing runs here."""
        raise self._missing

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:  # noqa: ARG002
        """Nothing runs here."""
        raise self._missing

    def profile(self, call: Call, *, kernels: Selection, metrics: tuple[str, ...]) -> Profile:  # noqa: ARG002
        """Nothing runs here, and a test that goes on without counters would fail at something else."""
        pytest.fail(f"gpuperf: {self._missing}", pytrace=False)

    def trace(self, call: Call) -> Trace:  # noqa: ARG002
        """Nothing runs here."""
        raise self._missing

    def static(self, call: Call) -> dict[str, StaticKernel]:
        """Compile."""
        kernels: dict[str, StaticKernel] = call()
        return kernels
