"""Read the kernels of a file that ncu wrote, in any of its formats, without a GPU and without ncu."""

from __future__ import annotations

import codecs
import mmap
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ncu.csv_reader import NoHeaderError, read_csv
from pytest_gpuperf.features.ncu.file_errors import EXPECTED, errors_in, is_console_text, not_from_ncu
from pytest_gpuperf.features.ncu.report_reader import read_report_isolated
from pytest_gpuperf.features.ncu.rule_results import RuleResult  # noqa: TC001
from pytest_gpuperf.metrics import METRICS, nearest, source_names
from pytest_gpuperf.metrics.combination import weight_names
from pytest_gpuperf.records import KernelProfile
from pytest_gpuperf.records.call import check_regex
from pytest_gpuperf.records.file_kind_detection import kind_of, refuse_trace
from pytest_gpuperf.records.files import show_path, unpacked
from pytest_gpuperf.report.number_format import count, listed

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pytest_gpuperf.features.ncu.file_kernel import FileKernel

NAMES_SHOWN = 20
"""Largest number of kernels or metrics in an error."""

_REPORT = b"NVR\0"
_GZIP = b"\x1f\x8b"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TARGET = b"Nsight Compute Target"
_VERSION_BYTES = 1 << 20
_VERSION = re.compile(
    rb"(?m)(?:Nsight Compute Target[^\n]{0,8}?|(?i:nsight[ -]compute)[^\n]{0,3}?|^Version )"
    rb"(20\d\d\.\d+(?:\.\d+)*)"
)
_DURATION = "gpu__time_duration.sum"
_FACTS = ("launch__", "device__", "profiler__")
"""Starts of the names of metrics that a failed launch has, too."""


class ReportKernel(KernelProfile, frozen=True, kw_only=True):
    """One launch in an ncu file, with everything that the file tells about it."""

    launch: int
    """Its position in the file, from 0."""
    ranges: tuple[str, ...] = ()
    """NVTX ranges around it: push/pop ranges outermost first, then start/end ranges."""
    units: dict[str, str] = {}
    """ncu's units of the raw metrics in `metrics`; short metrics have their own."""
    rules: tuple[RuleResult, ...] = ()
    """Results of ncu rules, in ncu's order; a raw page has none."""
    gpu: str = ""
    """Name of the GPU in the driver; empty if the file does not tell."""
    compute_capability: str = ""
    """`9.0`; empty if the file does not tell."""
    device: int | None = None
    """Number of the GPU among those of the process; None if the file does not tell."""
    failed: bool = False
    """True if ncu could not measure the launch."""

    def unit(self, metric: str) -> str:
        """Return the unit of a metric, by short or raw name; empty for a pure number or a word."""
        return METRICS[metric].unit if metric in METRICS else self.units.get(metric, "")


@dataclass(frozen=True)
class NcuFile:
    """The launches in a file, and facts about the file."""

    kernels: list[ReportKernel]
    ncu_version: str = ""
    """Version of the ncu that measured: `2025.3.1.0`; empty if the file does not tell."""
    notes: tuple[str, ...] = ()
    """Sentences about what was read and what was not."""


def read_report(
    path: str | os.PathLike[str], kernels: str | None = None, *, metrics: Collection[str] = ()
) -> list[ReportKernel]:
    """Read the kernels of a file of Nsight Compute, in launch order.

    The file can be a report (`.ncu-rep`), the raw page as CSV (wide), or any other ncu CSV (long), gzipped or
    not; its content tells which. A report is exact, the long CSV is rounded to two decimals. Another process
    reads a report, with the package `ncu-report` or the copy in an installation of ncu.

    Args:
        path: The file.
        kernels: A regex that is found in a kernel's function or demangled name; None for all kernels.
        metrics: Raw ncu names to keep in addition to short ones, in ncu's base unit (`ns`, `byte`, `%`), or
            short names that must be there.

    Returns:
        The launches, with short metrics in their own units.

    Raises:
        GpuperfError: The file does not exist, it is not an ncu file, it is damaged, no kernel in it matches
            the regex, no kernel in it has one of the metrics, or a report cannot be read here.
    """
    return read_file(path, kernels, metrics=metrics).kernels


def read_file(
    path: str | os.PathLike[str],
    kernels: str | None = None,
    *,
    metrics: Collection[str] = (),
    everything: bool = False,
) -> NcuFile:
    """Read a file of Nsight Compute, and facts about it.

    Args:
        path: As for `read_report`, and so are `kernels` and `metrics`.
        kernels: A regex.
        metrics: Names.
        everything: True to keep all metrics of the file by their raw names, in addition to short ones.

    Raises:
        GpuperfError: As for `read_report`.
    """
    path = Path(path)
    if kernels is not None:
        check_regex(kernels, "asked for")
    _check_metric_names(metrics)
    refuse_trace(kind_of(path), show_path(path), EXPECTED)
    try:
        with _unpacked(path) as plain:
            return _read_chosen(path, plain, kernels, metrics, everything)
    except OSError as error:
        raise GpuperfError(f"{path} cannot be read: {error.strerror or error}") from None


def _read_chosen(
    path: Path, plain: Path, regex: str | None, metrics: Collection[str], everything: bool
) -> NcuFile:
    raw_names = [name for name in metrics if name not in METRICS]
    weights = [name for name in weight_names([*METRICS, *raw_names]) if name not in METRICS]
    notes: list[str] = []
    names = None if everything else [*source_names(), *weights, *raw_names]
    launches = list(enumerate(_read(plain, names, notes)))
    chosen = [(launch, kernel) for launch, kernel in launches if kernel.matches(regex)]
    if not chosen:
        raise _no_kernel(path, regex, [kernel for _, kernel in launches])
    timed = any(_DURATION in kernel.metrics for _, kernel in launches)
    found = []
    for launch, kernel in chosen:
        extra = [name for name in kernel.metrics if name not in METRICS] if everything else raw_names
        found.append(_report_kernel(launch, kernel, extra, timed=timed))
    for name in metrics:
        if not any(name in kernel.metrics for kernel in found):
            raise _no_metric(path, name, {launch for launch, _ in chosen}, plain)
    unmeasured = sum(kernel.not_finite for _, kernel in chosen)
    if unmeasured:
        notes.append(f"ncu could not measure {count(unmeasured, 'counter')} (nan)")
    return NcuFile(found, _version(plain), tuple(notes))


def _report_kernel(launch: int, raw: FileKernel, extra: Sequence[str], *, timed: bool) -> ReportKernel:
    empty = all(name.startswith(_FACTS) for name in raw.metrics)
    # Other launches have a time, values are NaN, or none was measured: each alone may be another selection.
    signs = (timed, raw.not_finite > 0, empty)
    return ReportKernel(
        launch=launch,
        ranges=raw.ranges,
        units={name: raw.units[name] for name in extra if name in raw.units},
        rules=raw.rules,
        gpu=raw.gpu,
        compute_capability=raw.compute_capability,
        device=raw.device,
        failed=_DURATION not in raw.metrics and sum(signs) > 1,
        **msgspec.structs.asdict(raw.profile(extra)),
    )


def _version(plain: Path) -> str:
    """Find the version of the ncu that wrote a file; empty if the file does not tell."""
    with plain.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        # In a report anywhere, in a text among the first messages.
        start = max(content.find(_TARGET), 0)
        # The text is UTF-16 if PowerShell wrote it.
        found = _VERSION.search(content[start : start + _VERSION_BYTES].replace(b"\0", b""))
        return found[1].decode() if found else ""


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """Give the file itself, or its unpacked copy while the block runs."""
    if not path.is_file():
        raise GpuperfError(
            f"{path} is not a regular file" if path.exists() else f"there is no file {path}",
            expected=EXPECTED,
            next_step="check the path",
        )
    if _head(path, len(_GZIP)) != _GZIP:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        # Errors name the file, so the copy has its name.
        plain = Path(folder) / path.name.removesuffix(".gz")
        with plain.open("wb") as copy:
            copy.writelines(unpacked(path, "a report or CSV that ncu wrote"))
        yield plain


def _head(path: Path, length: int) -> bytes:
    with path.open("rb") as file:
        return file.read(length)


def _read(path: Path, names: Sequence[str] | None, notes: list[str]) -> list[FileKernel]:
    if _head(path, len(_REPORT)) == _REPORT:
        return read_report_isolated(path, names)
    data = path.read_bytes()
    text = data.decode("utf-16" if data.startswith(_UTF_16) else "utf-8", errors="replace")
    text = text.replace("\r\n", "\n")
    try:
        kernels = read_csv(text, notes)
    except NoHeaderError:
        raise not_from_ncu(path, text) from None
    except GpuperfError as error:
        raise GpuperfError(
            f"{path.name}: {error.found}", expected=error.expected, next_step=error.next_step
        ) from None
    if is_console_text(text):
        notes.append("the launches that the file has as console text of ncu were not read")
    notes += [f"ncu reported: {error}" for error in errors_in(text)]
    return kernels


def _check_metric_names(metrics: Iterable[str]) -> None:
    for name in metrics:
        if name not in METRICS and "__" not in name:
            near = nearest(name)
            raise GpuperfError(
                f"there is no metric {name!r}",
                expected="a short name of `gpuperf metrics`, or a raw ncu name with its suffix",
                next_step=f"did you mean {' or '.join(near)}?" if near else "",
            )


def _no_kernel(path: Path, regex: str | None, kernels: Sequence[FileKernel]) -> GpuperfError:
    if not kernels or regex is None:
        return GpuperfError(
            f"{path.name} holds no kernel",
            expected="kernels that ncu has profiled",
            next_step="see the output of ncu from that time",
        )
    names = list(dict.fromkeys(kernel.name for kernel in kernels))
    return GpuperfError(
        f"no kernel of {path.name} matches {regex!r}; it holds {listed(names, NAMES_SHOWN)}",
        expected="a regex found in a kernel's function or demangled name",
    )


def _no_metric(path: Path, name: str, launches: Collection[int], plain: Path) -> GpuperfError:
    known = [
        metric
        for launch, kernel in enumerate(_read(plain, None, []))
        if launch in launches
        for metric in kernel.metrics
    ]
    near = nearest(name, dict.fromkeys(known))
    return GpuperfError(
        f"no kernel of {path.name} has a value for {name}",
        expected="a metric that was profiled, with its suffix",
        next_step=f"did you mean {' or '.join(near)}?"
        if near
        else "profile again with `--metrics` or `--set full`",
    )
