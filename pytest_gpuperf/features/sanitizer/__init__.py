"""Memory errors, races and wrong barriers in the kernels of tests, found by NVIDIA's compute-sanitizer.

Option: `--gpuperf-sanitize`: the core then runs the tests first in a pass of `core_interface`.
Record part: `TestRecord.sanitizer`, whose type is in `records/run.py`, since verdicts have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.registry import Option

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.instruments["sanitizer"] = "pytest_gpuperf.features.sanitizer.core_interface"
    registry.options.append(
        Option(
            "sanitize",
            "off",
            "first run the tests once under this tool of compute-sanitizer, and fail those with errors: "
            "'memcheck' (accesses out of bounds), 'racecheck' (races in shared memory), 'initcheck' (reads "
            "of uninitialised memory), 'synccheck' (barriers)",
            choices=("off", "memcheck", "racecheck", "initcheck", "synccheck"),
            asks=True,
        )
    )
