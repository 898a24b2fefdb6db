"""The settings of one run: its options, read from pytest's configuration and checked."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.run_store import STATE_FOLDER
from pytest_gpuperf.registry import registry
from pytest_gpuperf.settings.options import MAX_TIMEOUT_S, all_options, number_of
from pytest_gpuperf.statistics.decision import MAX_TOLERANCE_PCT

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

PROFILING_PASS_ENV = "GPUPERF_PROFILING_PASS"  # noqa: S105
"""Variable of the child pytest under ncu: the folder of its plan."""
SIDE_ENV = "GPUPERF_SIDE"
"""Variable of the side processes of `--gpuperf-against`: the file of their plan."""
SANITIZING_PASS_ENV = "GPUPERF_SANITIZING_PASS"  # noqa: S105
"""Variable of the child pytest under compute-sanitizer: the folder of its plan."""
CHILD_ENV = (PROFILING_PASS_ENV, SIDE_ENV, SANITIZING_PASS_ENV)
WORKER_ENV = "GPUPERF_WORKER"
"""Variable of the processes that run the tests of a controller: their place among all."""


STATE_ENV = "GPUPERF_STATE"
"""Variable of a process that a fleet started: the folder for its run, away from those of the user."""


@dataclass(frozen=True)
class Settings:
    """The options of one run, checked."""

    counters: str
    """`auto`, `ncu`, `cupti` or `off`."""
    mode: str
    """`auto`, `hot`, `cold`, `queued`, `kernels` or `host`."""
    budget_s: float
    """Seconds that one `time()` call may measure."""
    timeout_s: float
    """Seconds that one test may take; 0 for any time."""
    shard: tuple[int, int] | None
    """Which of how many parts of the tests, from 0; None for all tests, and in a child."""
    tolerance_pct: float
    """Accepted slowdown, in percent; 0 leaves it to statistics."""
    strict: bool
    """True if `inconclusive` fails a test."""
    verify: str
    """`auto`, `strict` or `off`."""
    baselines: Path
    update: Literal["never", "new", "changed", "all"]
    """`never`, `new`, `changed` or `all`."""
    replay: str
    """`auto`, `never`, or the run to replay."""
    replay_gpu: str
    """Slug of the model whose recordings `auto` replays; empty for that of the newest one."""
    against: str
    """Commit, branch or tag to compare with; empty for none, and in a child."""
    build: str
    """Command that builds old code; empty for none."""
    settle_s: float | None
    """Seconds that a card may spend on settling; None for the default."""
    sanitize: str
    """`off`, `memcheck`, `racecheck`, `initcheck` or `synccheck`; `off` without the feature `sanitizer`."""
    ncu: str
    """Path of ncu; empty to look for it."""
    preset: tuple[str, ...]
    """Names of the presets for tests that name none."""
    metrics: tuple[str, ...]
    """More metrics to read for every test: short names or raw ones."""
    brief: bool
    """True if failures and the summary have at most ten lines."""
    root: Path
    """pytest's rootdir; run files go below it."""
    state: Path
    """Folder of the run files."""
    first_on_path: str
    """The first import folder before pytest added those of tests; the working directory under `python -m`."""
    profiling_pass: Path | None
    """The folder of the plan, in the child under ncu."""
    side: Path | None
    """The file of the plan, in a side process of `--gpuperf-against`."""
    sanitizing_pass: Path | None
    """The folder of the plan, in the child under compute-sanitizer."""
    of_features: Mapping[str, str]
    """Values of the features' options, by their names."""

    @classmethod
    def from_config(cls, config: pytest.Config, first_on_path: str = "") -> Settings:
        """Read and check the options of this run.

        Args:
            config: pytest's.
            first_on_path: The first import folder before pytest added those of tests.

        Raises:
            GpuperfError: An option has an invalid value.
        """
        from pytest_gpuperf.metrics.presets import check_presets

        values: dict[str, str] = {}
        for option in all_options():
            given = None if option.key_only else config.getoption(option.ini)
            value = str(config.getini(option.ini) if given is None else given).strip()
            choices = ("yes", "no") if option.switch else option.choices
            if choices and value not in choices:
                raise GpuperfError(f"{option.ini} is {value!r}", expected=f"one of {', '.join(choices)}")
            if option.most:
                number_of(option.ini, value, most=option.most)
            values[option.name] = value
        plan = {name: Path(path) for name in CHILD_ENV if (path := os.environ.get(name))}
        sanitize = values.get("sanitize", "off")  # of a feature
        return cls(
            # A run with compute-sanitizer reads no counters.
            counters="off" if sanitize != "off" else values["counters"],
            mode=values["mode"],
            budget_s=number_of("gpuperf_budget", values["budget"], above_0=True),
            timeout_s=number_of("--gpuperf-timeout", values["timeout"], most=MAX_TIMEOUT_S),
            shard=None if plan else _shard(values["shard"]),
            tolerance_pct=number_of("gpuperf_tolerance", values["tolerance"], most=MAX_TOLERANCE_PCT),
            strict=values["strict"] == "yes",
            verify=values["verify"],
            baselines=config.rootpath / values["baselines"],
            update=cast('Literal["never", "new", "changed", "all"]', values["update"]),
            replay=values["replay"],
            replay_gpu=values["replay-gpu"],
            against="" if plan else values["against"],
            build=values["build"],
            settle_s=number_of("gpuperf_settle_seconds", values["settle-seconds"])
            if values["settle-seconds"]
            else None,
            sanitize=sanitize,
            ncu=values["ncu"],
            preset=check_presets(values["preset"].split(","), "in gpuperf_preset"),
            metrics=tuple(name.strip() for name in values["metrics"].split(",") if name.strip()),
            brief=values["brief"] == "yes",
            root=config.rootpath,
            state=Path(os.environ.get(STATE_ENV) or config.rootpath / STATE_FOLDER),
            first_on_path=first_on_path,
            profiling_pass=plan.get(PROFILING_PASS_ENV),
            side=plan.get(SIDE_ENV),
            sanitizing_pass=plan.get(SANITIZING_PASS_ENV),
            of_features={option.name: values[option.name] for option in registry().options},
        )


def in_ci() -> bool:
    """Return True if `CI` is set."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def _shard(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    if found and 1 <= int(found[1]) <= int(found[2]):
        return int(found[1]) - 1, int(found[2])
    raise GpuperfError(f"--gpuperf-shard is {text!r}", expected="a part and the number of parts, such as 2/5")
