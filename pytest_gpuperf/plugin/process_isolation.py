"""Run the tests in processes of their own, so that a broken kernel ends only its process.

pytest-xdist starts the processes, sends them the tests and replaces one that dies. The controller, which is
the process that the user started, does not use the GPU: it writes the run and reports the results. Several
processes have a GPU each.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_gpuperf.compat.pytest_names import early_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.gpu_detection import may_measure
from pytest_gpuperf.measure.device.visible_gpus import visible_gpus
from pytest_gpuperf.settings.settings import CHILD_ENV, WORKER_ENV

if TYPE_CHECKING:
    from argparse import Namespace

    import pytest

    from pytest_gpuperf.measure.device.visible_gpus import VisibleGpu

NO_TEST = ("collectonly", "help", "version", "markers", "showfixtures", "show_fixtures_per_test", "cacheshow")
"""Options of which each runs no test, by `dest`."""
ONE_PROCESS = (
    *("usepdb", "trace", "setuponly", "setupshow", "setupplan", "looponfail"),
    *("benchmark_only", "benchmark_json", "benchmark_save", "benchmark_autosave", "benchmark_compare"),
    *("benchmark_histogram", "benchmark_cprofile"),
)
"""Options of which each needs the terminal or all results in the process of the tests, by `dest`."""


def isolate(early_config: pytest.Config, args: list[str]) -> None:
    """Add `-n` to the command line: 1 if a GPU is measured and nothing speaks against it, 0 in a child.

    Args:
        early_config: pytest's, before the command line is read completely.
        args: The command line.
    """
    options, has_xdist = early_options(early_config), early_config.pluginmanager.hasplugin("xdist")
    if _is_child():
        if has_xdist:
            # The command line is that of the parent, whose processes have one child each.
            args.append("-n0")
            if options is not None:
                options.numprocesses = 0
        return
    # Without options `Hooks` says so, where the tests run in this process.
    if options is None or not has_xdist or os.environ.get(WORKER_ENV) or not _measures(early_config, options):
        return
    alone = why_one_process(options) or runs_no_test(options)
    if options.numprocesses is None and not _spread_otherwise(options) and not alone:
        args[:] = ["-n", "1", *args]
        # pytest-cov looks here.
        options.numprocesses = 1


def why_one_process(options: Namespace) -> str:
    """Return the option that needs the process of the tests; empty if none does."""
    if options.capture == "no":
        return "-s"
    return next((f"--{name.replace('_', '-')}" for name in ONE_PROCESS if getattr(options, name, False)), "")


def runs_no_test(options: Namespace) -> bool:
    """Return True if an option shows something instead; then pytest-xdist starts no process."""
    return any(getattr(options, name, False) for name in NO_TEST)


def why_not_spread(config: pytest.Config) -> str:
    """Return why pytest-xdist cannot run these tests, as the command line asks; empty if it can."""
    options = config.option
    number = options.numprocesses
    if not number or _spread_otherwise(options):
        return (
            "--gpuperf knows of pytest-xdist's modes only -n; "
            "expected -n auto: a process for each GPU, with its tests in order"
        )
    if why := why_one_process(options):
        return f"{why} needs the process of the tests, and -n {number} starts others; leave one of them out"
    return ""


def gpus_of_workers(config: pytest.Config) -> list[VisibleGpu]:
    """Return the GPU of each worker; none for workers that take the GPUs as they are, or that replay.

    Raises:
        GpuperfError: There are more workers than GPUs.
    """
    options = config.option
    if not _measures(config, options) or options.numprocesses == 1:
        return []
    visible = visible_gpus()
    if options.numprocesses > len(visible):
        raise GpuperfError(
            f"-n {options.numprocesses} asks for more processes than there are GPUs ({len(visible)}): those "
            "that share a GPU would disturb each other's times",
            expected="at most one process for each GPU",
            next_step=f"type `pytest --gpuperf -n {len(visible)}`, or -n auto",
        )
    return visible[: options.numprocesses]


def auto_workers(config: pytest.Config) -> int | None:
    """Return the number of workers for `-n auto`: that of the GPUs; None if nothing is measured."""
    measures = not _is_child() and _measures(config, config.option)
    return len(visible_gpus()) if measures else None


def _is_child() -> bool:
    return any(map(os.environ.get, CHILD_ENV))


def _measures(config: pytest.Config, options: Namespace) -> bool:
    replay = options.gpuperf_replay or config.getini("gpuperf_replay")
    return replay in ("auto", "never") and may_measure()


def _spread_otherwise(options: Namespace) -> bool:
    """Return True for modes of distribution in which tests have other names, or come in another order."""
    started = options.tx and options.tx != ["popen"] * (options.numprocesses or 0)
    return bool(options.dist not in ("no", "load") or options.distload or started)
