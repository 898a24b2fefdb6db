"""Plugin of pytest: two ranks on the CPU, next to `fake_gpu`."""

from __future__ import annotations

from functools import partial

from forked import fork_children
from pytest_gpuperf.features.ranks import live_ranks, team


def pytest_configure() -> None:
    """Replace the GPUs of the ranks."""
    vars(live_ranks).update(visible_gpus=lambda: 2, Team=partial(team.Team, device="cpu"))
    fork_children(setattr, team)
