"""Find ncu and run a program under it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.processes.signals import end_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

NO_NCU = "ncu was found neither on PATH nor in the CUDA installation"
CACHE_CONTROL = "all"
"""Caches are flushed before each pass, so that what ran before a kernel does not count."""
CLOCK_CONTROL = "none"
"""The clocks are left alone: they are not ours, and locked ones would hide throttling."""
NOT_PLAIN = re.compile(r"[\^$]|\(\?|\\[bBAZdDwWsS1-9]")
"""Parts of a regex that mean something else to ncu, or to its one spelling of a kernel's name."""


@dataclass(frozen=True)
class Ncu:
    """An installed Nsight Compute."""

    path: Path
    version: str
    """Such as `2025.3.1.0`."""

    def command(self, report: Path, metrics: Iterable[str], regexes: Sequence[str | None]) -> list[str]:
        """The part of the command line before the program's own.

        Args:
            report: Where the report goes.
            metrics: Raw names.
            regexes: What each test wants; joined into one filter where every test has a plain one. Without
                a filter more kernels are profiled than needed, and left out when the report is read.
        """
        command = [
            str(self.path),
            "--config-file", "off",
            "--clock-control", CLOCK_CONTROL,
            "--cache-control", CACHE_CONTROL,
            "--profile-from-start", "off",
            "--target-processes", "application-only",
            "--check-exit-code", "0",
            "--nvtx",
            "--metrics", ",".join(metrics),
            "--force-overwrite",
            "--export", str(report),
            "--log-file", str(report.with_name("ncu.log")),
        ]  # fmt: skip
        wanted = [regex for regex in regexes if regex and not NOT_PLAIN.search(regex)]
        if wanted and len(wanted) == len(regexes):
            joined = "|".join(f"({regex})" for regex in dict.fromkeys(wanted))
            # Demangled names hold the function's name, so a search in them misses nothing.
            command += ["--kernel-name-base", "demangled", "--kernel-name", f"regex:{joined}"]
        return command

    def report_as_csv(self, report: Path) -> str:
        """A report's raw page as wide CSV, in base units."""
        command = [str(self.path), "--import", str(report), "--page", "raw", "--csv", "--print-units", "base"]
        env = {**os.environ, "LC_ALL": "C"}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=env).stdout  # noqa: S603

    def base_metrics(self) -> list[str]:
        """Names of the metrics that this ncu knows for the present GPU, without their suffixes."""
        command = [str(self.path), "--query-metrics"]
        output = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603
        return re.findall(r"^(\w+__\w+)\s", output, re.MULTILINE)


def find_ncu(path: str = "") -> Ncu | None:
    """The ncu at `path`, or the one on PATH or in the CUDA installation; None where there is none.

    Raises:
        GpuperfError: `path` is given and is no ncu.
    """
    if path:
        found = shutil.which(path)
        if found is None:
            raise GpuperfError(
                f"--gpuperf-ncu names {path!r}, which cannot be run",
                expected="the path of Nsight Compute's ncu",
            )
    else:
        found = ncu_path()
        if found is None:
            return None
    output = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    version = re.search(r"Version (\d+(?:\.\d+)+)", output)
    if version is None:
        if not path:
            return None
        raise GpuperfError(f"{path!r} does not answer --version like ncu", expected="Nsight Compute's ncu")
    return Ncu(Path(found), version[1])


def ncu_path() -> str | None:
    """The ncu on PATH or in the CUDA installation, whether or not it can be run; None where there is none."""
    roots = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    return shutil.which("ncu") or next(
        (hit for root in roots if root and (hit := shutil.which(f"{root}/bin/ncu"))), None
    )


def run_under_ncu(
    command: Sequence[str], *, cwd: Path, env: dict[str, str], log: Path, poll: Callable[[], None]
) -> int:
    """Run a command to its end, calling `poll` several times a second.

    The command has a process group of its own, which ends with this process: Ctrl-C leaves none behind.

    Returns:
        Exit status.
    """
    with log.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                poll()
                time.sleep(0.1)
        except BaseException:
            end_group(process)
            raise
        return process.returncode
