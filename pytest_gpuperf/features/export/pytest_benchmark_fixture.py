"""pytest-benchmark's fixture `benchmark`, timed by the GPU in marked tests."""

from __future__ import annotations

import pytest

from pytest_gpuperf.plugin.internal_errors import register


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note the marked tests: the marker has an effect in them, though they ask for no fixture of the core."""
    marked = [item for item in items if "benchmark" in getattr(item, "fixturenames", ())]
    marked = [item for item in marked if item.get_closest_marker("gpuperf") is not None]
    if marked:
        from pytest_gpuperf.features.export.pytest_benchmark_timer import is_timed_by_gpu
        from pytest_gpuperf.session.marker import MARKED

        for item in marked:
            item.stash[MARKED] = is_timed_by_gpu(item)
        register(config, _Timers(), "gpuperf-benchmark-timers")


class _Timers:
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Set the GPU timer of pytest-benchmark for a marked test; skip the test without `--gpuperf`."""
        from pytest_gpuperf.features.export.pytest_benchmark_timer import apply

        apply(item)
