"""The fixture `gpuperf_ranks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.plugin.entry import NOT_MEASURED

if TYPE_CHECKING:
    from pytest_gpuperf.features.ranks.facade import GpuperfRanks
    from pytest_gpuperf.plugin.facade import Gpuperf


@pytest.fixture
def gpuperf_ranks(request: pytest.FixtureRequest, gpuperf: Gpuperf) -> GpuperfRanks:
    """Check and time callables on several GPUs at once: `@pytest.mark.gpuperf(gpus=2)` says on how many."""
    del gpuperf  # a test with this fixture measures too
    if not request.config.pluginmanager.has_plugin("gpuperf-hooks"):
        pytest.skip(NOT_MEASURED)
    from pytest_gpuperf.features.ranks.facade import GpuperfRanks
    from pytest_gpuperf.plugin.hooks import state_and_runner

    return GpuperfRanks(*state_and_runner(request))
