"""pytest-benchmark's fixture `benchmark`, timed by the GPU in marked tests."""

from __future__ import annotations

import pytest

from pytest_gpuperf.plugin.hook_wrapper import guarded
from pytest_gpuperf.settings.options import is_enabled


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note the marked tests: the marker has an effect in them, though they ask for no fixture of the core."""
    for item in items if is_enabled(config) else ():
        if item.get_closest_marker("gpuperf") is not None:
            from pytest_gpuperf.features.export.benchmark_timer import is_timed_by_gpu
            from pytest_gpuperf.session.marker import MARKED

            item.stash[MARKED] = is_timed_by_gpu(item)


@guarded
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set the GPU timer of pytest-benchmark for a marked test; skip the test without `--gpuperf`."""
    if "benchmark" in getattr(item, "fixturenames", ()) and item.get_closest_marker("gpuperf") is not None:
        from pytest_gpuperf.features.export.benchmark_timer import apply

        apply(item)
