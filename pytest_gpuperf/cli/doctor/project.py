"""Checks of the project and of the folders that its runs write to."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.doctor.check import absent, home, ok, problem, warning
from pytest_gpuperf.records.counters import STATIC_SOURCE
from pytest_gpuperf.records.runs import STATE_FOLDER, newest_recordings
from pytest_gpuperf.report.show import count, show_size

if TYPE_CHECKING:
    from pytest_gpuperf.cli.doctor.check import CheckResult
    from pytest_gpuperf.cli.doctor.machine import Machine
    from pytest_gpuperf.records.baseline import Baseline

FILES_COUNTED = 20_000
"""Number of files in a cache after which counting stops."""
LOW_BYTES = 2**30
TOO_LOW_BYTES = 100 * 2**20
"""An ncu report of one run takes tens of megabytes."""


def triton_cache(machine: Machine) -> CheckResult:
    """Check Triton's cache of compiled kernels."""
    if folder := machine.environ.get("TRITON_CACHE_DIR"):
        return _cache(Path(folder), "TRITON_CACHE_DIR")
    above = machine.environ.get("TRITON_HOME") or home() or "~"
    return _cache(Path(above) / ".triton" / "cache", "TRITON_CACHE_DIR")


def inductor_cache(machine: Machine) -> CheckResult:
    """Check the cache of torch.compile."""
    if folder := machine.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        return _cache(Path(folder), "TORCHINDUCTOR_CACHE_DIR")
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid_{os.getuid()}"
    # The same as in torch._inductor.runtime.cache_dir_utils.
    name = re.sub(r'[\\/:*?"<>|]', "_", user)
    return _cache(Path(tempfile.gettempdir()) / f"torchinductor_{name}", "TORCHINDUCTOR_CACHE_DIR")


def _cache(folder: Path, variable: str) -> CheckResult:
    if not _writable(folder):
        return problem(
            "its folder cannot be written: each run compiles its kernels again, or fails",
            f"export {variable}=FOLDER, one that you may write",
        )
    if not folder.exists():
        return ok("empty: the first run compiles")
    files, size = 0, 0
    for parent, _, names in os.walk(folder):
        for name in names:
            files += 1
            with suppress(OSError):  # removed since
                size += (Path(parent) / name).lstat().st_size
        if files > FILES_COUNTED:
            return ok(f"more than {show_size(size)}")
    return ok(show_size(size))


def disk(machine: Machine) -> CheckResult:
    """Check the free space for run files and ncu reports."""
    state = machine.project.root / STATE_FOLDER
    if not _writable(state):
        return problem(
            f"{STATE_FOLDER} cannot be written: no run can be kept",
            f"make {STATE_FOLDER} yours: chown, chmod",
        )
    free = shutil.disk_usage(_nearest(state)).free
    text = f"{show_size(free)} free for {STATE_FOLDER}"
    fix = "make room; gpuperf_keep = 5 in pytest's configuration keeps fewer runs"
    if free < TOO_LOW_BYTES:
        return problem(text, fix)
    return warning(text, fix) if free < LOW_BYTES else ok(text)


def baselines(machine: Machine) -> CheckResult:
    """Count the baselines for this GPU."""
    store = machine.project.store
    slugs = store.slugs()
    if machine.gpu is None:
        return ok(f"for {', '.join(slugs)}") if slugs else absent("none")
    slug = machine.gpu.slug
    if slug not in slugs:
        known = [other for other in slugs if other != STATIC_SOURCE]
        others = f" (there are some for {', '.join(known)})" if known else ""
        return warning(f"none for {slug}{others}", "pytest --gpuperf --gpuperf-update=new")
    loaded = [store.load(slug, suite) for suite in store.suites(slug)]
    return ok(f"{slug}: {_counts([baseline for baseline in loaded if baseline])}")


def _counts(found: list[Baseline]) -> str:
    tests = [test for baseline in found for test in baseline.tests.values()]
    sessions = sorted(
        len(measurement.time.sessions)
        for test in tests
        for measurement in test.measurements.values()
        if measurement.time
    )
    text = f"{count(len(found), 'suite')}, {count(len(tests), 'test')}"
    if not sessions:
        return text
    few, many = sessions[0], sessions[-1]
    return f"{text}, {'' if few == many else f'{few} to '}{count(many, 'session')} for each time"


def recordings(machine: Machine) -> CheckResult:
    """Find the recordings that a machine without a GPU replays."""
    runs = newest_recordings(machine.project.baselines)
    if runs:
        newest = runs[0]
        return ok(f"{len(runs)}, the newest of {newest.environment.gpu.name}, {newest.started_at[:10]}")
    fix = "gpuperf record (after a run on a GPU)"
    if machine.gpu is None:
        return warning("none: there is nothing to replay", fix)
    return absent("none: machines without a GPU have nothing to replay", fix)


def _nearest(folder: Path) -> Path:
    """Return a folder, or the first folder above it that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _writable(folder: Path) -> bool:
    return os.access(_nearest(folder), os.W_OK | os.X_OK)
