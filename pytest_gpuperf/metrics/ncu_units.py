"""ncu's units: what it prints scaled (`us`, `Kbyte`) brought back to what its reports hold (`ns`, `byte`)."""

from __future__ import annotations

_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

# ncu up to 2023 says `usecond` where later ones say `us`; both scale bytes by 1000, not by 1024.
_SCALES: dict[str, tuple[str, float]] = {
    **{f"{prefix}byte": ("byte", factor) for prefix, factor in _PREFIXES.items()},
    **{f"{prefix}hz": ("hz", factor) for prefix, factor in _PREFIXES.items()},
    **{
        prefix + second: ("ns", factor)
        for second in ("s", "second")
        for prefix, factor in {"n": 1.0, "u": 1e3, "m": 1e6, "": 1e9}.items()
    },
}


def to_base(value: float, unit: str) -> tuple[float, str]:
    """Bring a scaled value to the unit that ncu's reports hold.

    Args:
        value: As ncu printed it.
        unit: ncu's unit, such as `us`, `Kbyte/block` or `%`; what follows a `/` stays as it is.

    Returns:
        The value in `ns`, `byte` or `hz` (over the same denominator) and that unit, or both unchanged
        where the unit is none of these.
    """
    numerator, slash, denominator = unit.partition("/")
    if numerator not in _SCALES:
        return value, unit
    base, factor = _SCALES[numerator]
    return value * factor, base + slash + denominator
