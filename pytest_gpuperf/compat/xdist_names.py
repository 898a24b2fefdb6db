"""Private names of pytest-xdist and execnet, with the replacement of a missing one.

pytest-xdist 3.8 has all of them; the tests with the lowest dependencies run with 3.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

    import pytest
    from xdist.scheduler import LoadScheduling
    from xdist.workermanage import WorkerController


class _NeverRaised(BaseException):
    """In the place of an exception that is missing."""


def interruption_type() -> type[BaseException]:
    """Take `xdist.dsession.Interrupted`; else a run ended by `--maxfail` names xdist's reason."""
    try:
        from xdist.dsession import Interrupted
    except ImportError:
        return _NeverRaised
    found: type[BaseException] = Interrupted
    return found


def silence_distribution(manager: pytest.PytestPluginManager) -> None:
    """Take `terminal` from xdist's plugin `dsession`, and unregister its reporter; else its lines appear."""
    distribution: Any = manager.get_plugin("dsession")
    if hasattr(distribution, "terminal"):
        distribution.terminal = None
    if manager.hasplugin("terminaldistreporter"):
        manager.unregister(name="terminaldistreporter")


def stop_distribution(manager: pytest.PytestPluginManager) -> None:
    """Set `shouldstop` of xdist's plugin `dsession`; else tests run after the last allowed failure."""
    distribution: Any = manager.get_plugin("dsession")
    if hasattr(distribution, "shouldstop"):
        distribution.shouldstop = "stopping"


def process_of(node: WorkerController) -> subprocess.Popen[bytes] | None:
    """Return `gateway._io.popen`; else None: a lost process has no exit status."""
    return getattr(getattr(node.gateway, "_io", None), "popen", None)


def have_same_tests(scheduling: LoadScheduling) -> bool:
    """Ask `_check_nodes_have_same_collection`, which reports differences; else compare without a report."""
    if (check := getattr(scheduling, "_check_nodes_have_same_collection", None)) is not None:
        return bool(check())
    first, *others = map(list, scheduling.node2collection.values())
    return all(other == first for other in others)
