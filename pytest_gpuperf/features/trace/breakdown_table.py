"""Traces next to each other: every rank, GPU and step, and how the time of each was spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.trace.summary import share_pct
from pytest_gpuperf.report.number_format import show_time
from pytest_gpuperf.report.table import Column, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.records import Trace

CATEGORIES_SHOWN = 6
"""Maximum number of categories in the line of a trace."""


def split_lines(trace: Trace) -> list[str]:
    """Return the time of a trace by categories, communication and waiting.

    `work: gemm 61 %, communication 20 %, norm 9 %`
    `communication 1.90 ms: 1.20 ms exposed, 0.70 ms overlapped by computation`
    `idle 0.40 ms: 0.10 ms waiting for the host, 0.30 ms for kernels already launched`
    """
    shares = ((name, share_pct(time_us, trace.gpu_time_us)) for name, time_us in trace.category_us.items())
    shown = [f"{name} {share:.0f} %" for name, share in shares][:CATEGORIES_SHOWN]
    lines = [f"work: {', '.join(shown)}"]
    moved = trace.communication
    if moved is not None and moved.kernels:
        lines.append(
            f"communication {show_time(moved.total_us)}: {show_time(moved.exposed_us)} exposed, "
            f"{show_time(moved.overlapped_us)} ({share_pct(moved.overlapped_us, moved.total_us):.0f} %) "
            "overlapped by computation"
        )
    idle = trace.idle
    if idle is not None and idle.total_us:
        unknown = f", {show_time(idle.unknown_us)} unknown" if idle.unknown_us else ""
        lines.append(
            f"idle {show_time(idle.total_us)}: {show_time(idle.host_wait_us)} waiting for the host, "
            f"{show_time(idle.kernel_wait_us)} for kernels already launched{unknown}"
        )
    return lines


def overview_table(rows: Sequence[tuple[str, str, Trace]]) -> Table:
    """Return a row for each trace.

    Args:
        rows: Heading, name and trace of each row.
    """
    columns: Sequence[tuple[str, Callable[[Trace], str], bool]] = (
        ("launches", lambda one: f"{one.launches:,}", True),
        ("span", lambda one: show_time(one.span_us), False),
        ("busy", lambda one: "" if one.gpu_busy_pct is None else show_time(one.busy_us), False),
        ("kernels", lambda one: show_time(one.kernel_us), False),
        ("comm.", lambda one: _moved(one, "total_us"), False),
        ("exposed", lambda one: _moved(one, "exposed_us"), False),
        ("idle", lambda one: "" if one.gpu_busy_pct is None else show_time(one.span_us - one.busy_us), False),
        ("host wait", lambda one: _waited(one, "host_wait_us"), False),
        ("kernel wait", lambda one: _waited(one, "kernel_wait_us"), False),
        ("overlapped", lambda one: _moved(one, "overlapped_us"), True),
        ("copies", lambda one: f"{one.copies:,}", True),
    )
    return Table([
        Column("trace", [heading for heading, _, _ in rows], "group", code=True),
        Column("step", [name for _, name, _ in rows], "name", code=True),
        *(Column(title, [cell(one) for _, _, one in rows], wide=wide) for title, cell, wide in columns),
    ])  # fmt: skip


def _moved(trace: Trace, name: str) -> str:
    moved = trace.communication
    return show_time(getattr(moved, name)) if moved is not None and moved.kernels else ""


def _waited(trace: Trace, name: str) -> str:
    return show_time(getattr(trace.idle, name)) if trace.idle is not None else ""
