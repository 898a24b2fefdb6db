"""Read the kernels of a file that ncu wrote, in any of its formats, without a GPU and without ncu."""

from __future__ import annotations

import codecs
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.csv_reader import NoHeaderError, read_csv
from pytest_gpuperf.measure.ncu.report_reader import ncu_python_dirs, read_report_isolated
from pytest_gpuperf.measure.ncu.rules import Rule  # noqa: TC001
from pytest_gpuperf.metrics import METRICS, nearest, source_names
from pytest_gpuperf.metrics.combine import weight_names
from pytest_gpuperf.records import KernelProfile
from pytest_gpuperf.records.file_kinds import kind_of, refuse_trace
from pytest_gpuperf.records.packed import unpacked
from pytest_gpuperf.records.selection import check_regex

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel

NAMES_SHOWN = 20
"""Largest number of kernels or metrics in an error."""

_REPORT = b"NVR\0"
_GZIP = b"\x1f\x8b"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class ReportKernel(KernelProfile, frozen=True, kw_only=True):
    """One launch in an ncu file, with everything that the file tells about it."""

    launch: int
    """Its position in the file, from 0."""
    ranges: tuple[str, ...] = ()
    """NVTX ranges around it: push/pop ranges outermost first, then start/end ranges."""
    units: dict[str, str] = {}
    """ncu's units of the raw metrics in `metrics`; short metrics have their own."""
    rules: tuple[Rule, ...] = ()
    """Results of ncu rules, in ncu's order; a raw page has none."""

    def unit(self, metric: str) -> str:
        """Return the unit of a metric, by short or raw name; empty for a pure number or a word."""
        return METRICS[metric].unit if metric in METRICS else self.units.get(metric, "")


def read_report(
    path: str | os.PathLike[str], kernels: str | None = None, *, metrics: Collection[str] = ()
) -> list[ReportKernel]:
    """Read the kernels of a file of Nsight Compute, in launch order.

    The file can be a report (`.ncu-rep`), the raw page as CSV (wide) or any other ncu CSV (long), gzipped or
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
    path = Path(path)
    if kernels is not None:
        check_regex(kernels, "asked for")
    _check_metric_names(metrics)
    refuse_trace(kind_of(path), str(path), "a report or CSV that ncu wrote")
    try:
        with _unpacked(path) as plain:
            return _read_chosen(path, plain, kernels, metrics)
    except OSError as error:
        raise GpuperfError(f"{path} cannot be read: {error.strerror or error}") from None


def _read_chosen(path: Path, plain: Path, regex: str | None, metrics: Collection[str]) -> list[ReportKernel]:
    raw_names = [name for name in metrics if name not in METRICS]
    weights = [name for name in weight_names([*METRICS, *raw_names]) if name not in METRICS]
    launches = list(enumerate(_read(plain, [*source_names(), *weights, *raw_names])))
    chosen = [(launch, kernel) for launch, kernel in launches if kernel.matches(regex)]
    if not chosen:
        raise _no_kernel(path, regex, [kernel for _, kernel in launches])
    found = [_report_kernel(launch, kernel, raw_names) for launch, kernel in chosen]
    for name in metrics:
        if not any(name in kernel.metrics for kernel in found):
            raise _no_metric(path, name, {launch for launch, _ in chosen}, plain)
    return found


def _report_kernel(launch: int, raw: RawKernel, extra: Sequence[str]) -> ReportKernel:
    return ReportKernel(
        launch=launch,
        ranges=raw.ranges,
        units={name: raw.units[name] for name in extra if name in raw.units},
        rules=raw.rules,
        **msgspec.structs.asdict(raw.profile(extra)),
    )


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """Give the file itself, or its unpacked copy while the block runs."""
    if not path.is_file():
        raise GpuperfError(
            f"{path} is not a regular file" if path.exists() else f"there is no file {path}",
            expected="a report or CSV that ncu wrote",
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


def _read(path: Path, names: Sequence[str] | None) -> list[RawKernel]:
    if _head(path, len(_REPORT)) == _REPORT:
        return read_report_isolated(path, names, rules=True, search=ncu_python_dirs(None))
    data = path.read_bytes()
    if not data.strip():
        raise GpuperfError(
            f"{path.name} is empty",
            expected="a report or CSV that ncu wrote",
            next_step="see the output of ncu from that time",
        )
    text = data.decode("utf-16" if data.startswith(_UTF_16) else "utf-8", errors="replace")
    try:
        return read_csv(text)
    except GpuperfError as error:
        if isinstance(error, NoHeaderError) and path.name.removesuffix(".gz").endswith(".ncu-rep"):
            raise GpuperfError(
                f"{path.name} is not an ncu report, or a damaged one: it does not begin like a report",
                expected="a complete report written by `ncu --export`",
                next_step="copy it again, or profile again",
            ) from None
        raise GpuperfError(
            f"{path.name}: {error.found}", expected=error.expected, next_step=error.next_step
        ) from None


def _check_metric_names(metrics: Iterable[str]) -> None:
    for name in metrics:
        if name not in METRICS and "__" not in name:
            near = nearest(name)
            raise GpuperfError(
                f"there is no metric {name!r}",
                expected="a short name of `gpuperf metrics`, or a raw ncu name with its suffix",
                next_step=f"did you mean {' or '.join(near)}?" if near else "",
            )


def _no_kernel(path: Path, regex: str | None, kernels: Sequence[RawKernel]) -> GpuperfError:
    if not kernels or regex is None:
        return GpuperfError(
            f"{path.name} holds no kernel",
            expected="kernels that ncu has profiled",
            next_step="see the output of ncu from that time",
        )
    return GpuperfError(
        f"no kernel of {path.name} matches {regex!r}; it holds {_listed(kernel.name for kernel in kernels)}",
        expected="a regex found in a kernel's function or demangled name",
    )


def _no_metric(path: Path, name: str, launches: Collection[int], plain: Path) -> GpuperfError:
    known = [
        metric
        for launch, kernel in enumerate(_read(plain, None))
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


def _listed(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - NAMES_SHOWN
    return ", ".join(distinct[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
