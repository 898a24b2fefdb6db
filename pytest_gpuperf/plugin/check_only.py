"""The `gpuperf` fixture of a run without `--gpuperf`: it checks outputs, and measures nothing."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.plugin.facade import Gpuperf
from pytest_gpuperf.session.child_runner import ChildRunner, ChildSource
from pytest_gpuperf.session.live_runner import why_not_live
from pytest_gpuperf.session.live_source import check, fuzz
from pytest_gpuperf.session.marker import ItemState, Marker
from pytest_gpuperf.session.seeds import random_numbers_kept, seed, seed_of
from pytest_gpuperf.settings.settings import Settings

if TYPE_CHECKING:
    from pytest_gpuperf.records import Correctness, Fuzzing, Profile
    from pytest_gpuperf.records.call import Call, FuzzCall, Selection


class CheckSource(ChildSource):
    """Checks as a run with `--gpuperf` does; all other values pass every comparison."""

    runs_for = ()

    def check(self, call: Call) -> Correctness:
        """Run the call on poisoned memory and compare."""
        return check(call)

    def fuzz(self, call: FuzzCall) -> Fuzzing:
        """Search for a case in which the function differs from its reference."""
        return fuzz(call, lambda _: None)

    def profile(self, call: Call, kernels: Selection) -> Profile:
        """Return one kernel of any metrics, and say so to a test that counts kernels."""
        return replace(super().profile(call, kernels), unavailable="only outputs are checked")


def checking(request: pytest.FixtureRequest, not_measured: str) -> Gpuperf:
    """Return the object behind the fixture, and seed random numbers as a run with `--gpuperf` does.

    Args:
        request: Of the fixture.
        not_measured: Why the test is skipped if it needs several GPUs.
    """
    item = request.node
    try:
        settings, marker = Settings.from_config(request.config), Marker.of(item)
    except GpuperfError as error:
        raise pytest.fail.Exception(f"gpuperf: {error}", pytrace=False) from None
    if (why := why_not_live()) or marker.gpus:
        pytest.skip(f"nothing to check with: {why}" if why else not_measured)
    stack = ExitStack()
    stack.enter_context(random_numbers_kept())
    request.addfinalizer(stack.close)
    seed(seed_of(item.nodeid))
    return Gpuperf(ItemState(item.nodeid, marker, item.path), ChildRunner(settings, CheckSource()))
