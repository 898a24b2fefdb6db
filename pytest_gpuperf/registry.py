"""What features add to the core: a feature is a folder in `features/` with a function `register(registry)`.

Registering imports nothing else: modules are named by text, and functions import their needs.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

    from pytest_gpuperf.records import Measurement
    from pytest_gpuperf.report.rows import Summary
    from pytest_gpuperf.report.table import Table
    from pytest_gpuperf.session.run_report import End, RunReport


class Option(NamedTuple):
    """One ini key, mostly with an option.

    Each run of pytest imports this; a dataclass would cost it a millisecond.
    """

    name: str
    """`counters` for `--gpuperf-counters` and `gpuperf_counters`."""
    default: str
    help: str
    metavar: str = ""
    choices: Sequence[str] = ()
    unset: str = ""
    """The value shown in `--help` if the default is empty."""
    switch: bool = False
    """Takes no value on the command line; `yes` or `no` in the ini file."""
    key_only: bool = False
    """True if it has an ini key and no option; `-o gpuperf_budget=2` sets it for one run."""
    asks: bool = False
    """True if the option asks for an action; without `--gpuperf` that is an error."""
    most: float = 0.0
    """Largest value of a number; 0 if the value is none, or the core checks it."""

    @property
    def flag(self) -> str:
        """What a person types on the command line, without the value."""
        return f"-o {self.ini}" if self.key_only else f"--gpuperf-{self.name}"

    @property
    def ini(self) -> str:
        """The ini key."""
        return f"gpuperf_{self.name.replace('-', '_')}"


class Registry:
    """The places at which a feature adds something to the core."""

    def __init__(self) -> None:
        self.features: list[str] = []
        """Names of the features, for those that show more next to another one."""
        self.commands: dict[str, str] = {}
        """The module of each command of `gpuperf`, which has it as `command`."""
        self.names: dict[str, str] = {}
        """The module of each name that `pytest_gpuperf` offers."""
        self.instruments: dict[str, str] = {}
        """The module by which a method or option of the core measures; the core gets it by `instrument`."""
        self.plugins: list[str] = []
        """Modules with fixtures and hooks of pytest; loaded without `--gpuperf`, so they import little."""
        self.options: list[Option] = []
        """Options of pytest; `Settings.of_features` has their values."""
        self.outputs: list[Callable[[RunReport, End], None]] = []
        """Called when a run has ended: each writes a file; its `GpuperfError` or `OSError` fails the run."""
        self.log_lines: list[Callable[[Summary], Iterable[str]]] = []
        """Lines below the summary in the terminal."""
        self.row_tables: list[Callable[[Measurement, bool], Table | None]] = []
        """The table below the row of a measurement in the terminal; the flag is True with `-v`."""
        self.explanations: list[Callable[[Measurement], Iterable[str]]] = []
        """Lines that say what bounds a measurement, below a broken limit."""


@cache
def registry() -> Registry:
    """Return what all features add; those whose folder was deleted add nothing."""
    from pytest_gpuperf.features import register

    found = Registry()
    register(found)
    return found


def instrument(name: str) -> ModuleType:
    """Import what measures for a method or option of the core.

    Args:
        name: The name of the feature.

    Raises:
        GpuperfError: Its folder was deleted.
    """
    if module := registry().instruments.get(name):
        return import_module(module)
    raise GpuperfError(
        f"this pytest_gpuperf has no feature `{name}`",
        expected=f"its folder, features/{name}",
        next_step="install the package again: pip install --force-reinstall pytest-gpuperf",
    )
