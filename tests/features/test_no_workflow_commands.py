"""No text from a run file becomes a command of GitHub's runner, which reads each line of a job's log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from command_line import gpuperf
from pytest_gpuperf.records import GpuInfo, KernelProfile, Measurement, Profile, Timing, Toolchain
from pytest_gpuperf.records.run_store import RunStore
from pytest_gpuperf.report.forms import FORMS
from run_builders import record, run
from trace_builders import BLOCK

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "::error file=a::x ::warning::y\n::stop-commands::z\r ::set-env::v ##[error]w \x1b[31m\x9b\u202e"
COMMAND = re.compile(r"^\s*::|##\[|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", re.MULTILINE)
COMMANDS = [
    *(
        [*command, f"--{form}"]
        for command in (
            ["explain"],
            ["trace"],
            ["compare", "one", "two"],
            ["baseline", "accept", "--dry-run"],
            ["history", "show"],
        )
        for form in FORMS
    ),
    *(["export", "--format", form] for form in ("csv", "json")),
    ["history", "add", "one", "two"],
    ["merge", "one", "two", "-o", "merged"],
]


@pytest.fixture
def with_runs(project: Path) -> Path:
    kernel = KernelProfile(name=HOSTILE, metrics={"duration_us": 50.0, "memory_throughput": 85.0})
    measurement = Measurement(
        trace=BLOCK,
        timing=Timing(mode="hot", time_us=50.0, spread_pct=1.0, blocks_us=(50.0,) * 6, calls_per_block=10),
        profile=Profile(kernels=(kernel,), combined={"duration_us": 50.0, "memory_throughput": 85.0}),
    )
    tests = [record(f"t/test_a.py::test_b[{HOSTILE}]", HOSTILE, main=measurement)]
    tests.append(replace(record("t/test_a.py::test_c"), measurements={HOSTILE: measurement}))
    for name in ("one", "two"):
        made = run(*tests, id=name, gpu=GpuInfo(name=HOSTILE, slug="hostile", uuid=HOSTILE))
        environment = replace(
            made.environment,
            commit=HOSTILE,
            toolchain=Toolchain(driver=HOSTILE, torch=HOSTILE, triton=HOSTILE, ncu=HOSTILE),
        )
        RunStore(project / ".gpuperf").write(
            replace(made, environment=environment, counters_unavailable=HOSTILE)
        )
    return project


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_line_of_a_command_is_one_for_the_runner(with_runs: Path, arguments: list[str]) -> None:
    if arguments[:2] == ["history", "show"]:
        gpuperf("history", "add", "one", "two")
    done = gpuperf(*arguments)
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert "error" in done.output
    assert not COMMAND.search(done.output), done.output
