"""The choice of the hooks for a process with `--gpuperf`; what a process does not need is not imported."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.plugin.internal_errors import OwnErrors, register
from pytest_gpuperf.plugin.late_reports import Reports
from pytest_gpuperf.plugin.process_isolation import gpus_of_workers, runs_no_test, why_not_spread
from pytest_gpuperf.settings.settings import Settings

if TYPE_CHECKING:
    from pytest_gpuperf.session.worker_messages import Link

SLOWER_UNDER_NCU = 3
"""Factor for the time of a test under ncu, which runs each kernel many times, but times nothing."""
SLOWER_UNDER_SANITIZER = 10
"""Factor for the time of a test under compute-sanitizer."""


def activate(config: pytest.Config, first_on_path: str) -> None:
    """Check the options, and register the hooks.

    Args:
        config: pytest's.
        first_on_path: The first import folder before pytest added those of tests.
    """
    config.pluginmanager.register(OwnErrors.of(config), "gpuperf-own-errors")
    option = config.option
    given = getattr(config, "workerinput", {}).get("gpuperf")
    spread = getattr(option, "numprocesses", None) or getattr(option, "tx", None)
    spread = spread or getattr(option, "dist", "no") != "no" or hasattr(config, "workerinput")
    if spread and given is None and not runs_no_test(option):
        if why := why_not_spread(config):
            raise pytest.UsageError(f"gpuperf: {why}")
        gpus = gpus_of_workers(config)
        from pytest_gpuperf.plugin.controller import Controller

        settings = Settings.from_config(config, first_on_path)
        reports = Reports(settings)
        register(config, reports, "gpuperf-reports")
        register(config, Controller(config, settings, gpus, reports), "gpuperf-hooks")
    else:
        from pytest_gpuperf.session.worker_messages import Link

        link = Link.of(given) if given else None
        first = link.orders.first_on_path if link else first_on_path
        _activate(config, Settings.from_config(config, first), link)


def _activate(config: pytest.Config, settings: Settings, link: Link | None) -> None:
    from pytest_gpuperf.plugin.hooks import Hooks

    if link is not None:
        from pytest_gpuperf.plugin.watchdog import Worker

        register(config, Worker(link, config, settings.timeout_s), "gpuperf-process")
    child = settings.profiling_pass or settings.sanitizing_pass
    if child is not None:
        from pytest_gpuperf.plugin.watchdog import GpuWatch, Timeout
        from pytest_gpuperf.session.ncu_child import prepare_child

        prepare_child(config, child)
        slower = SLOWER_UNDER_NCU if settings.profiling_pass else SLOWER_UNDER_SANITIZER
        if settings.timeout_s:
            # The stack of a slow test goes to the log: pytest captures the descriptor itself meanwhile.
            log = os.fdopen(os.dup(2), "w", encoding="utf-8")
            register(config, Timeout(slower * settings.timeout_s, log), "gpuperf-timeout")
        if settings.profiling_pass:
            # It ends after the test that breaks its GPU: its parent starts another one.
            register(config, GpuWatch(), "gpuperf-watch")
    if settings.side is not None:
        from pytest_gpuperf.session.side_child import prepare_side

        prepare_side(config, settings.side)
    reports = None
    if link is None and child is None and settings.side is None:
        reports = Reports(settings)
        register(config, reports, "gpuperf-reports")
    hooks = Hooks(settings, link, reports)
    register(config, hooks, "gpuperf-hooks")
    if child is None and settings.side is None:
        register(config, hooks.late_report, "gpuperf-late-report")
    if settings.brief:
        from pytest_gpuperf.plugin.brief_reports import BriefReports

        register(config, BriefReports(), "gpuperf-brief")
    from pytest_gpuperf.session.seeds import Seeding

    register(config, Seeding(), "gpuperf-seeding")
