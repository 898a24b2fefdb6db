"""Format Markdown for the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.records import Environment


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table, with the first column left-aligned and the others right-aligned."""
    lines = [f"|{'|'.join(line)}|\n" for line in (titles, *rows)]
    return "".join((lines[0], f"|---|{'---:|' * (len(titles) - 1)}\n", *lines[1:]))


def provenance(environment: Environment | None, date: str) -> str:
    """Return `NVIDIA H200, driver …, torch …, triton …, commit …, 2026-11-20`."""
    if environment is None:
        return date[:10]
    tools = environment.toolchain
    parts = [
        environment.gpu.name,
        *(
            f"{name} {found}"
            for name, found in (("driver", tools.driver), ("torch", tools.torch), ("triton", tools.triton))
            if found
        ),
        f"commit {environment.commit[:7] or 'unknown'}{' with local changes' if environment.dirty else ''}",
        date[:10],
    ]
    return ", ".join(parts)


def model(name: str) -> str:
    """Shorten the name of a GPU: `H200` for `NVIDIA H200`, `H100` for `NVIDIA H100 80GB HBM3`."""
    return name.removeprefix("NVIDIA ").partition(" ")[0]


def us(value: float) -> str:
    """Format microseconds with the significant digits."""
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"
