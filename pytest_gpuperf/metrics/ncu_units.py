"""ncu's units: bring printed values (`us`, `Kbyte`) back to the base units of reports (`ns`, `byte`)."""

from __future__ import annotations

_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

# ncu up to 2023 writes `usecond`, later versions `us`; both scale bytes by 1000, not by 1024.
_SCALES: dict[str, tuple[str, float]] = {
    **{f"{prefix}byte": ("byte", factor) for prefix, factor in _PREFIXES.items()},
    **{f"{prefix}hz": ("hz", factor) for prefix, factor in _PREFIXES.items()},
    **{
        prefix + second: ("ns", factor)
        for second in ("s", "second")
        for prefix, factor in {"n": 1.0, "u": 1e3, "m": 1e6, "": 1e9}.items()
    },
}
# ncu up to 2023 writes frequencies as `cycle/nsecond`, and rates as `inst/usecond`.
_PER = {f"{prefix}second": factor for prefix, factor in {"n": 1e9, "u": 1e6, "m": 1e3}.items()}


def to_base(value: float, unit: str) -> tuple[float, str]:
    """Bring a scaled value to the base unit of ncu reports.

    Args:
        value: The value that ncu printed.
        unit: ncu's unit, such as `us`, `Kbyte/block` or `%`.

    Returns:
        The value in `ns`, `byte` or `hz`, over the same denominator or a second, and that unit; both
        unchanged if the unit is another one.
    """
    numerator, slash, denominator = unit.partition("/")
    if denominator in _PER:
        value, denominator = value * _PER[denominator], "second"
    base, factor = _SCALES.get(numerator, (numerator, 1.0))
    return value * factor, base + slash + denominator
