"""Usual honest tests, to compare their wall time with the defences and without them, in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from suites.kernels.square import square_triton

if TYPE_CHECKING:
    from exploits.verdicts import Recorder
    from pytest_gpuperf.plugin.facade import Gpuperf

FIRST = "first"
"""Case that pays for the first steps of a process; it is not counted."""
CASES = {
    FIRST: (1024, "hot"),
    "square short": (512, "hot"),
    "square": (2048, "hot"),
    "square cold": (2048, "cold"),
    "square long": (8192, "hot"),
    "softmax": (4096, "hot"),
    "product": (2048, "hot"),
}
"""Rows and columns, and the mode."""
ROUNDS = 1


def undefend(patch: pytest.MonkeyPatch) -> None:
    """Switch the defences of times off."""
    from pytest_gpuperf.measure.device import memory
    from pytest_gpuperf.measure.verification.verifier import Verifier

    patch.setattr(Verifier, "__call__", lambda _, __, timing, ___: timing)
    patch.setattr(memory, "reset_l2", lambda: None)


@pytest.mark.parametrize("defended", [True, False], ids=["with", "without"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("again", range(ROUNDS))
def test_usual(
    gpuperf: Gpuperf,
    name: str,
    again: int,
    defended: bool,
    record_property: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record_property("case", (name, "with" if defended else "without"))
    size, mode = CASES[name]
    if not defended:
        undefend(monkeypatch)
    x = torch.randn(size, size, device=gpuperf.device)
    if name == FIRST:
        gpuperf(_softmax, x, expected=_softmax, label="softmax")
        gpuperf(torch.mm, x.bfloat16(), x.bfloat16(), expected=torch.mm, mode="cold", label="product")
    if "softmax" in name:
        gpuperf(_softmax, x, expected=_softmax, bytes=2 * x.nbytes, mode=mode)
    elif "product" in name:
        half = x.bfloat16()
        gpuperf(torch.mm, half, half, expected=torch.mm, flops=2 * len(x) ** 3, mode=mode)
    else:
        gpuperf(square_triton, x, expected=torch.square, bytes=2 * x.nbytes, mode=mode)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)
