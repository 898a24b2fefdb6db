"""GPU chips by the names of ncu and CUPTI. They differ in metrics, and in the passes of a metric."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Mapping

Feature: TypeAlias = Literal["tensor cores", "TF32"]


@dataclass(frozen=True)
class Chip:
    """A chip, and the others with the same compute capability and metrics."""

    name: str
    """The name for `ncu --chips`: `gh100`."""
    compute_capability: str
    """`9.0`."""
    others: tuple[str, ...] = ()
    """The family and its other chips. CUPTI has the same list of metrics for all of them, except TU116 and
    TU117, which lack tensor cores."""

    def __str__(self) -> str:
        """Return the usual spelling: `GH100`."""
        return self.name.upper()


CHIPS = (
    Chip("gv100", "7.0"),
    Chip("tu102", "7.5", ("tu10x", "tu104", "tu106", "tu116", "tu117")),
    Chip("ga100", "8.0"),
    Chip("ga102", "8.6", ("ga10x", "ga103", "ga104", "ga106", "ga107")),
    Chip("ga10b", "8.7"),
    Chip("ad102", "8.9", ("ad10x", "ad103", "ad104", "ad106", "ad107")),
    Chip("gh100", "9.0"),
    Chip("gb100", "10.0", ("gb10x", "gb102")),
    Chip("gb110", "10.3", ("gb11x", "gb112")),
    Chip("gb10b", "11.0"),
    Chip("gb202", "12.0", ("gb20x", "gb203", "gb205", "gb206", "gb207")),
    Chip("gb20b", "12.1", ("gb20c",)),
)
_BY_CAPABILITY = {chip.compute_capability: chip for chip in CHIPS}


OLDER = "older"
"""Name for all chips before GV100, which have none of the features."""
_SINCE: Mapping[Feature, str] = {"tensor cores": "7.0", "TF32": "8.0"}
"""First compute capability with each feature (CUDA programming guide)."""
_SMALL_TURING = re.compile(r"GTX 16\d\d|\bMX\d{3}\b|\bT(?:400|500|550|600|1000|1200|2000)\b", re.IGNORECASE)
"""Names of GPUs with TU116 or TU117, which lack tensor cores."""


def chip_name(compute_capability: str, gpu: str = "") -> str:
    """Return the name of a GPU's chip as the rules of a diagnosis know it; empty if unknown.

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


def chip_of(compute_capability: str) -> Chip | None:
    """Find the chip of a compute capability such as `9.0`; None if it is unknown."""
    return _BY_CAPABILITY.get(compute_capability)


def find_chip(text: str) -> Chip:
    """Find the chip that a user names.

    Args:
        text: `gh100`, `GA104`, `9.0`, or a family: `ga10x`.

    Raises:
        GpuperfError: No chip has that name.
    """
    wanted = text.lower()
    for chip in CHIPS:
        if wanted in (chip.name, chip.compute_capability, *chip.others):
            return chip
    raise GpuperfError(
        f"there is no chip {text!r}",
        expected=f"one of {', '.join(chip.name for chip in CHIPS)}, or a compute capability such as 9.0",
    )
