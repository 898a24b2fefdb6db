"""Run files, below `.gpuperf/runs/` or as recordings next to the baselines."""

from __future__ import annotations

import math
import os
import re
from datetime import timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import NO_GPU, RUN_SCHEMA, Run
from pytest_gpuperf.records.decoding import decode_versioned
from pytest_gpuperf.records.file_kind_detection import kind_of_content, refuse_ncu, refuse_trace, type_of
from pytest_gpuperf.records.files import HEAD_BYTES, find_files, read_unpacked, show_path, write_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pytest_gpuperf.records import TestRecord

STATE_FOLDER = ".gpuperf"
"""Below pytest's rootdir: run files and the lock of the baselines; never committed."""

RUN_FILES = ("run.json", "run.json.gz")
EXPECTED = "a run.json"
"""Expected content of a run file, for errors."""
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Form of a GPU's slug and a run's id; both become names of files."""
RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
"""Form of the ids that this version makes."""

_END = b"\n]}\n"
"""The end of a run file, after its last test."""
_MEASURE = "measure one with pytest --gpuperf, or name a run.json"
# Not strict, so that words such as `nan`, which JSON has no number for, read as numbers again.
_DECODER = msgspec.json.Decoder(Run, strict=False)


class UnknownRunError(GpuperfError):
    """No run, file or folder has this name; it may be that of a test."""


class RunStore:
    """Run files of one project.

    Args:
        state: The project's `.gpuperf` folder; need not exist.
        baselines: Folder of the recordings; None for measured runs only.
        model: Model of GPU whose recordings count; empty for that of the newest one.
    """

    def __init__(self, state: Path, baselines: Path | None = None, model: str = "") -> None:
        self.folder = state / "runs"
        self._baselines = baselines
        self._model = model

    @staticmethod
    def new_id(now: datetime) -> str:
        """Return an id that sorts by time: `20261120-173012-3f9a`, with the second in 65536 parts.

        Args:
            now: An aware time; shown in UTC.
        """
        part = now.microsecond * 65536 // 1_000_000
        return f"{now.astimezone(timezone.utc):%Y%m%d-%H%M%S}-{part:04x}"

    def write(self, run: Run) -> Path:
        """Write a run's `run.json` and return its path.

        Raises:
            OSError: The file cannot be written.
        """
        make_state_folder(self.folder.parent)
        path = self.folder / run.id / RUN_FILES[0]
        write_files({path: encode_run(run)})
        return path

    def append(self, run_id: str, test: TestRecord) -> None:
        """Add a test to the run file of an unfinished run; the file is a complete run at any time.

        Raises:
            OSError: The file cannot be written.
        """
        with (self.folder / run_id / RUN_FILES[0]).open("r+b") as file:
            file.seek(-len(_END), os.SEEK_END)
            file.write(b",\n" + _encode_test(test) + _END)

    def ids(self) -> set[str]:
        """Return the ids of all runs."""
        return set(self._runs())

    def resolve(self, ref: str | None = None) -> Path:
        """Find a run file.

        Args:
            ref: None or `latest` for the newest run; if none was measured on a GPU, and there are
                recordings, of those that pytest replays the one with the most tests, of several the newest.
                Else an id or the start of one; a run file, gzipped or not; or a folder that holds one, such
                as an unpacked CI artifact.

        Raises:
            GpuperfError: No run has this name, or several have.
        """
        measured, recorded = self._runs(), self._recordings()
        runs = {**recorded, **measured}
        if ref is None or ref == "latest":
            if not runs:
                raise GpuperfError(f"there is no run in {show_path(self.folder)}", next_step=_MEASURE)
            on_gpu = (run_id for run_id in sorted(measured, reverse=True) if _is_of_gpu(measured[run_id]))
            newest = next(on_gpu, "") if recorded else max(measured)
            return runs[newest] if newest else self._replayed()
        if ref in runs:
            return runs[ref]
        matches = sorted(run_id for run_id in runs if ref and run_id.startswith(ref))
        if len(matches) > 1:
            raise GpuperfError(
                f"{ref!r} could be any of {', '.join(matches)}", next_step="give more of the id"
            )
        if matches:
            return runs[matches[0]]
        path = Path(ref)
        if type_of(path) == "file":
            return path
        if type_of(path) == "folder":
            return _run_file_in(path)
        there = f"the runs of this project are in {show_path(self.folder)}" if measured else _MEASURE
        raise UnknownRunError(
            f"there is no run {ref!r}",
            expected="the id of a run, the start of one, a run.json, or a folder that holds one",
            next_step=f"leave out the test, {ref!r} has to be a whole run; to accept some tests, type "
            "`pytest --gpuperf --gpuperf-update=changed NODEID`"
            if "::" in ref
            else there,
        )

    def resolve_all(self, ref: str | None = None) -> list[Path]:
        """Find the run files of a merged run, one for each GPU; otherwise the file that `resolve` finds.

        Args:
            ref: As for `resolve`, or a folder with a folder for each GPU, as `gpuperf merge` writes it. A
                folder of run ids is the history of a project, not a merged run.

        Raises:
            GpuperfError: As `resolve`.
        """
        folder = Path(ref) if ref else Path()
        if ref and type_of(folder) == "folder" and ref not in self.ids():
            found = [path for name in RUN_FILES for path in find_files(folder, f"*/{name}")]
            if len(found) > 1 and not any(RUN_ID.fullmatch(path.parent.name) for path in found):
                return sorted(found)
        return [self.resolve(ref)]

    def _replayed(self) -> Path:
        assert self._baselines is not None
        own = recordings_of(self._baselines, self._model)
        return max(own, key=lambda path: len(own[path].tests))

    def _recordings(self) -> dict[str, Path]:
        if self._baselines is None:
            return {}
        return {path.name.partition(".")[0]: path for path in recordings(self._baselines)}

    def _runs(self) -> dict[str, Path]:
        found = {}
        for name in reversed(RUN_FILES):
            found.update({path.parent.name: path for path in find_files(self.folder, f"*/{name}")})
        return found


def _is_of_gpu(path: Path) -> bool:
    """Return True if a run has more than compiled kernels."""
    return load_run(path).environment.gpu.slug != NO_GPU.slug


def make_state_folder(state: Path) -> None:
    """Make the `.gpuperf` folder if it is missing, ignored by git."""
    state.mkdir(parents=True, exist_ok=True)
    ignore = state / ".gitignore"
    if not ignore.exists():
        write_files({ignore: b"*\n"})  # half a file would keep the next run from writing it


def _run_file_in(folder: Path) -> Path:
    for pattern in ("{}", "*/{}"):
        found = sorted(path for name in RUN_FILES for path in find_files(folder, pattern.format(name)))
        if len(found) == 1:
            return found[0]
        if found:
            raise GpuperfError(
                f"{show_path(folder)} holds more than one run: {', '.join(map(show_path, found))}",
                next_step="name one of them",
            )
    raise GpuperfError(f"{show_path(folder)} holds no run.json", next_step="name the file of a run")


def encode_run(run: Run) -> bytes:
    """Return a run as JSON, with one test a line so that git shows and packs it well.

    Numbers that JSON does not have (a difference from a reference may be NaN or infinite) become words, which
    `load_run` reads as numbers again.
    """
    head = msgspec.json.encode(replace(run, tests=()))[:-1] + b',"tests":[\n'
    return head + b",\n".join(map(_encode_test, run.tests)) + _END


def _encode_test(test: TestRecord) -> bytes:
    line = msgspec.json.encode(test)
    return msgspec.json.encode(_spelled(msgspec.to_builtins(test))) if b"null" in line else line


def _spelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _spelled(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def load_run(path: Path) -> Run:
    """Read a run file, gzipped or not.

    Raises:
        GpuperfError: The file cannot be read, is not a run, was written by a newer version, or holds an
            impossible number.
    """
    shown = show_path(path)
    next_step = f"measure again with `pytest --gpuperf`, or type `git restore {shown}` if it is committed"
    data = read_unpacked(path, EXPECTED)
    if b'"complete":false' in data[: data.find(b"\n")] and not data.endswith(_END):
        # The process was killed while it appended the last test.
        data = data[: data.rfind(b",\n")] + _END
    refuse_trace(kind_of_content(data), shown, EXPECTED)
    refuse_ncu(data, shown, EXPECTED)
    if data and b'"started_at"' not in data[:HEAD_BYTES]:  # to restore it might lose the work of others
        found, other = f"{shown} is not a run", "name the file of a run, or move this file away"
        raise GpuperfError(found, expected=EXPECTED, next_step=other)
    run = decode_versioned(data, _DECODER, schema=RUN_SCHEMA, shown=shown, next_step=next_step)
    refuse_unsafe_names(run.id, run.environment.gpu.slug, shown, next_step)
    return run


def refuse_unsafe_names(run_id: str, gpu: str, shown: str, next_step: str) -> None:
    """Refuse a file whose run id or GPU cannot be a part of a path.

    Raises:
        GpuperfError: One has other characters, or is too long.
    """
    for what, name in (("run id", run_id), ("GPU", gpu)):
        if not SAFE_NAME.fullmatch(name):
            raise GpuperfError(
                f"{shown} has the {what} {name[:100]!r}",
                expected="at most 100 letters, digits, '-', '_' and '.'",
                next_step=next_step,
            )


def file_of_run(run_file: Path, name: str) -> Path:
    """Return the path of a file that a run names, such as a trace; it may not exist.

    Args:
        run_file: The run file, which may come from elsewhere.
        name: The name in it; empty for none.

    Raises:
        GpuperfError: The file is not below the folder of the run, or a link leads out of it.
    """
    folder = Path(os.path.realpath(run_file.parent))
    path = folder if "\0" in name else Path(os.path.realpath(folder / name))
    if name and (path == folder or not path.is_relative_to(folder)):
        raise GpuperfError(
            f"{show_path(run_file)} names the file {name!r}", expected="a file below the folder of the run"
        )
    return path


def recording_path(baselines: Path, run: Run) -> Path:
    """Return the path of a run's recording: `<baselines>/<gpu slug>/recordings/<run id>.json`."""
    return baselines / run.environment.gpu.slug / "recordings" / f"{run.id}.json"


def recordings(baselines: Path) -> Sequence[Path]:
    """Return the files of all recordings below a baselines folder, sorted by GPU and run id."""
    return [
        path for path in find_files(baselines, "*/recordings/*") if path.name.endswith((".json", ".json.gz"))
    ]


def newest_recordings(baselines: Path) -> list[Run]:
    """Read all recordings below a baselines folder, newest first.

    Raises:
        GpuperfError: One of them cannot be read.
    """
    return list(_by_age(baselines).values())


def _by_age(baselines: Path) -> dict[Path, Run]:
    found = {path: load_run(path) for path in recordings(baselines)}
    return dict(sorted(found.items(), key=lambda one: (one[1].started_at, one[1].id), reverse=True))


def recordings_of(baselines: Path, model: str = "") -> dict[Path, Run]:
    """Read the recordings that a machine without a GPU replays, newest first; empty if there is none.

    Args:
        baselines: Their folder.
        model: Slug of the model of GPU; empty for that of the newest recording.

    Raises:
        GpuperfError: One of them cannot be read, or none is of this model.
    """
    found = _by_age(baselines)
    slugs = list(dict.fromkeys(run.environment.gpu.slug for run in found.values()))
    slug = model or next(iter(slugs), "")
    if found and slug not in slugs:
        raise GpuperfError(
            f"there is no recording of {slug!r}",
            expected=f"one of {', '.join(slugs)}",
            next_step=f"type -o gpuperf_replay_gpu={slugs[0]}",
        )
    return {path: run for path, run in found.items() if run.environment.gpu.slug == slug}
