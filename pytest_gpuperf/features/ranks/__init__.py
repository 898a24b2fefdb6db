"""Checks and times of calls that run on several GPUs at once, one process for each: collectives.

Fixture: `gpuperf_ranks`, in tests with `@pytest.mark.gpuperf(gpus=2)`. Name: `pytest_gpuperf.GpuperfRanks`.
Key: `gpuperf_rank_timeout`.
Record part: `Timing.ranks`, whose types are in `records/ranks.py`, since limits and tables have its values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.registry import Option

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.names["GpuperfRanks"] = "pytest_gpuperf.features.ranks.facade"
    registry.plugins.append("pytest_gpuperf.features.ranks.fixture")
    registry.options.append(
        Option(
            "rank-timeout",
            "120",
            "seconds without a sign of life after which a rank of a test on several GPUs hangs; 0: any time",
            metavar="SECONDS",
            key_only=True,
            most=10**6,
        )
    )
