"""What GPU chips have, as far as the rules ask for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, TypeAlias

from pytest_gpuperf.metrics.chips import CHIPS, chip_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Feature: TypeAlias = Literal["tensor cores", "TF32"]
OLDER = "older"
"""Name for all chips before GV100, which have none of the features."""
_SINCE: Mapping[Feature, str] = {"tensor cores": "7.0", "TF32": "8.0"}
"""First compute capability with each feature (CUDA programming guide)."""
_SMALL_TURING = re.compile(r"GTX 16\d\d|\bMX\d{3}\b|\bT(?:400|500|550|600|1000|1200|2000)\b", re.IGNORECASE)
"""Names of GPUs with TU116 or TU117, which lack tensor cores."""


def chip_name(compute_capability: str, gpu: str = "") -> str:
    """Return the name of a GPU's chip as the rules know it; empty if unknown.

    Args:
        compute_capability: `9.0`.
        gpu: Name of the GPU in the driver, which tells TU116 and TU117 from the rest of Turing.
    """
    if compute_capability == "7.5" and _SMALL_TURING.search(gpu):
        return "tu116"
    chip = chip_of(compute_capability)
    if chip is not None:
        return chip.name
    return OLDER if re.fullmatch(r"[1-6]\.\d", compute_capability) else ""


def has(chip: str, feature: Feature) -> bool | None:
    """Return True if a chip has a feature; None if the chip is unknown.

    Args:
        chip: `gh100`, `tu116` or `older`; empty if unknown.
        feature: One of them.
    """
    if chip == OLDER:
        return False
    found = next((one for one in CHIPS if chip in (one.name, *one.others)), None)
    if found is None:
        return None
    if feature == "tensor cores" and chip in ("tu116", "tu117"):
        return False
    own, first = (tuple(map(int, text.split("."))) for text in (found.compute_capability, _SINCE[feature]))
    return own >= first
