"""Run the tests in a process of their own, so that a broken kernel ends only that process.

pytest-xdist starts the process, sends it the tests and replaces it if it dies. The controller, which is the
process that the user started, does not use the GPU: it writes the run and reports the results.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.device.presence import may_measure
from pytest_gpuperf.settings.settings import PROFILING_PASS_ENV, SANITIZING_PASS_ENV, SIDE_ENV

if TYPE_CHECKING:
    from argparse import Namespace

    import pytest

ONE_PROCESS = (
    *("usepdb", "trace", "collectonly", "setuponly", "setupshow", "setupplan", "looponfail"),
    *("help", "version", "markers", "showfixtures", "show_fixtures_per_test", "cacheshow"),
    *("benchmark_only", "benchmark_json", "benchmark_save", "benchmark_autosave", "benchmark_compare"),
    *("benchmark_histogram", "benchmark_cprofile"),
)
"""Options of which each needs the terminal or all results in the process of the tests, or runs no test, by
`dest`."""


def isolate(early_config: pytest.Config, args: list[str]) -> None:
    """Add `-n 1` to the command line if the tests measure on a GPU, and nothing speaks against it.

    Args:
        early_config: pytest's, before the command line is read completely.
        args: The command line.
    """
    options = early_config.known_args_namespace
    if is_isolated(early_config, options) and options.numprocesses is None:
        args[:] = ["-n", "1", *args]
        # pytest-cov looks here.
        options.numprocesses = 1


def is_isolated(config: pytest.Config, options: Namespace) -> bool:
    """Return True if the tests run in a process of their own, of one worker.

    Args:
        config: pytest's.
        options: The values of the command line.
    """
    if not config.pluginmanager.hasplugin("xdist") or any(
        os.environ.get(name) for name in (PROFILING_PASS_ENV, SANITIZING_PASS_ENV, SIDE_ENV)
    ):
        return False
    alone = options.capture == "no" or any(getattr(options, name, False) for name in ONE_PROCESS)
    # With other modes of distribution tests have other names, or come in another order.
    spread = options.numprocesses not in (None, 1) or options.dist not in ("no", "load")
    if options.numprocesses is None:
        spread = bool(spread or options.tx or options.distload or options.dist != "no")
    replay = options.gpuperf_replay or config.getini("gpuperf_replay")
    return not alone and not spread and replay in ("auto", "never") and may_measure()
