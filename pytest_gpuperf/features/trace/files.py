"""Read trace files and folders of them: every rank, GPU and step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trace.chrome_traces import read_chrome_trace
from pytest_gpuperf.features.trace.regions import CALL_MARK, STEPS, annotations_of, regions_of
from pytest_gpuperf.features.trace.summary import devices_of, no_annotation, summarise_gpu, table
from pytest_gpuperf.records.call import with_label
from pytest_gpuperf.records.file_kind_detection import kind_of
from pytest_gpuperf.records.files import show_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pytest_gpuperf.features.trace.chrome_traces import Annotation, ChromeTrace
    from pytest_gpuperf.features.trace.regions import Region
    from pytest_gpuperf.records import Trace

_RANK = re.compile(r"(?i)rank[-_=]?(\d+)")
_NUMBERS = re.compile(r"(\d+)")
_NAMES = ("*.json", "*.json.gz")
"""Names that export_chrome_trace and tensorboard_trace_handler give."""


@dataclass(frozen=True)
class FoundTrace:
    """One trace from a run, or of one GPU in a file."""

    trace: Trace
    """Of a file the whole, or the median occurrence of the annotation."""
    file: Path
    """The Chrome trace, which a recording does not have."""
    nodeid: str = ""
    """Empty for a file."""
    label: str = ""
    rank: int | None = None
    """From the trace, else from the name of the file; None for a run, or if neither tells."""
    world_size: int | None = None
    """Number of ranks; None if the trace does not have it."""
    steps: tuple[Trace, ...] = ()
    """Of a file every occurrence of the annotation, or every step of the profiler."""

    @property
    def title(self) -> str:
        """The test, or the file."""
        return with_label(self.nodeid or show_path(self.file), self.label)

    @property
    def has_file(self) -> bool:
        """True for a test of a run of this machine, whose Chrome trace is still there."""
        return bool(self.nodeid) and self.file.is_file()

    @property
    def heading(self) -> str:
        """The title, with rank and GPU if it is a file."""
        if self.nodeid:
            return self.title
        of = f" of {self.world_size}" if self.world_size else ""
        rank = "" if self.rank is None else f"rank {self.rank}{of}, "
        return f"{rank}GPU {self.trace.device}, {self.title}"


def read_traces(paths: Sequence[Path], annotation: str | None = None) -> tuple[list[FoundTrace], list[str]]:
    """Read files, and all traces in folders and the folders in them.

    Args:
        paths: Files and folders.
        annotation: See `summarise`.

    Returns:
        The traces by rank, file and GPU; and lines about files that cannot be used, and about doubtful times
        in the others.

    Raises:
        GpuperfError: One of the files cannot be used, or none in the folders.
    """
    found: list[FoundTrace] = []
    remarks: list[str] = []
    for path in paths:
        if not path.is_dir():
            _add(path, annotation, found, remarks)
            continue
        before, errors = len(found), []
        for file in _traces_in(path):
            try:
                _add(file, annotation, found, remarks)
            except GpuperfError as error:  # noqa: PERF203
                errors.append(error)
        if len(found) == before:
            none = GpuperfError(
                f"{show_path(path)} has no trace of torch.profiler",
                expected="files that tensorboard_trace_handler or export_chrome_trace wrote: "
                "*.pt.trace.json, gzipped or not",
            )
            raise errors[0] if errors else none
        remarks += [f"left out: {error.found}" for error in errors]
    if len(paths) == 1 or len({one.rank for one in found}) > 1:
        found.sort(key=_place)
    return found, remarks


def _place(one: FoundTrace) -> tuple[object, ...]:
    # Numbers in the names of files are ordered by their value: worker10 after worker9.
    parts = [int(part) if part.isdigit() else part for part in _NUMBERS.split(str(one.file))]
    return one.rank is None, one.rank or 0, parts, one.trace.device


def _traces_in(folder: Path) -> Iterator[Path]:
    files: Iterable[Path] = {file for name in _NAMES for file in folder.rglob(name) if file.is_file()}
    return (file for file in sorted(files) if kind_of(file) == "trace")


def _add(path: Path, annotation: str | None, found: list[FoundTrace], remarks: list[str]) -> None:
    """Add the GPUs of one file, its remarks, and a line for each GPU without activity in the annotation."""
    trace = read_chrome_trace(path)
    in_name = _RANK.findall(path.name)
    rank = int(in_name[-1]) if trace.rank is None and in_name else trace.rank
    devices = devices_of(trace)
    named = annotations_of(trace, annotation)
    busy = [device for device in devices if named is None or _regions(trace, device, named)]
    if not busy:
        raise no_annotation(trace, annotation or CALL_MARK)
    for device in busy:
        made = summarise_gpu(trace, device, annotation=annotation)
        steps = _steps(trace, device, annotation)
        found.append(FoundTrace(made, path, rank=rank, world_size=trace.world_size, steps=steps))
    remarks += [f"{show_path(path)}: {remark}" for remark in trace.remarks]
    remarks += [
        f"left out: GPU {device} of {show_path(path)}, which has no activity in these annotations"
        for device in devices
        if device not in busy
    ]


def _regions(trace: ChromeTrace, device: int, named: Sequence[Annotation]) -> list[Region]:
    return regions_of(trace, [one for one in trace.activities if one.device == device], named)


def _steps(trace: ChromeTrace, device: int, annotation: str | None) -> tuple[Trace, ...]:
    named = annotations_of(trace, annotation) or annotations_of(trace, annotation or STEPS) or []
    return tuple(table(region, trace, device) for region in _regions(trace, device, named))
