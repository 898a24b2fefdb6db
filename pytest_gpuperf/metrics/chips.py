"""GPU chips as ncu and CUPTI name them. Which metrics there are differs by chip, and with it the passes."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_gpuperf.errors import GpuperfError


@dataclass(frozen=True)
class Chip:
    """A chip, and the others that have its compute capability and the same metrics."""

    name: str
    """`gh100`, as `ncu --chips` takes it."""
    compute_capability: str
    """`9.0`."""
    others: tuple[str, ...] = ()
    """The family, and the others of it. In CUPTI their lists of metrics are the same, but for TU116 and
    TU117, which lack tensor cores."""

    def __str__(self) -> str:
        """`GH100`, as people write it."""
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


def chip_of(compute_capability: str) -> Chip | None:
    """The chip of a compute capability such as `9.0`; None where it is not known."""
    return next((chip for chip in CHIPS if chip.compute_capability == compute_capability), None)


def find_chip(text: str) -> Chip:
    """The chip that a user names.

    Args:
        text: `gh100`, `GA104`, `9.0`, or a family: `ga10x`.

    Raises:
        GpuperfError: There is none of that name.
    """
    wanted = text.lower()
    for chip in CHIPS:
        if wanted in (chip.name, chip.compute_capability, *chip.others):
            return chip
    raise GpuperfError(
        f"there is no chip {text!r}",
        expected=f"one of {', '.join(chip.name for chip in CHIPS)}, or a compute capability such as 9.0",
    )
