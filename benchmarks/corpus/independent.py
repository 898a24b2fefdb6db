"""A second reader of profilers' files, straight by `ncu_report`, pandas and json: no code of the package.

Each value has a key of the form `launch 3: duration_us` or `all: span_us`.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import sys
from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Values = dict[str, float | str]

_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
REASONS = ("long_scoreboard", "barrier", "wait", "short_scoreboard", "math_pipe_throttle", "lg_throttle")
RAW = {
    "duration_us": "gpu__time_duration.sum",
    "sm_throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory_throughput": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_throughput": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_throughput": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_hit_rate": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_rate": "lts__t_sector_hit_rate.pct",
    "registers_per_thread": "launch__registers_per_thread",
    "grid_size": "launch__grid_size",
    "block_size": "launch__block_size",
    "achieved_occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "theoretical_occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "instructions": "smsp__inst_executed.sum",
    "dram_gb_per_s": "dram__bytes.sum.per_second",
    "warp_cycles_per_instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
}
SHORT = {raw: short for short, raw in RAW.items()}
LABELS = {
    "Duration": "duration_us",
    "SM [%]": "sm_throughput",
    "SOL SM": "sm_throughput",
    "Compute (SM) [%]": "sm_throughput",
    "Compute (SM) Throughput": "sm_throughput",
    "Memory [%]": "memory_throughput",
    "SOL Memory": "memory_throughput",
    "SOL FB": "dram_throughput",
    "SOL DRAM": "dram_throughput",
    "DRAM Throughput": "dram_throughput",
    "SOL L2": "l2_throughput",
    "SOL L2 Cache": "l2_throughput",
    "L2 Cache Throughput": "l2_throughput",
    "L1 Hit Rate": "l1_hit_rate",
    "L1/TEX Hit Rate": "l1_hit_rate",
    "L2 Hit Rate": "l2_hit_rate",
    "Registers Per Thread": "registers_per_thread",
    "Grid Size": "grid_size",
    "Block Size": "block_size",
    "Achieved Occupancy": "achieved_occupancy",
    "Theoretical Occupancy": "theoretical_occupancy",
    "Executed Instructions": "instructions",
    "Warp Cycles Per Issued Instruction": "warp_cycles_per_instruction",
}
TIMES_US = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}
RATES_GB = {"byte/s": 1e-9, "Kbyte/s": 1e-6, "Mbyte/s": 1e-3, "Gbyte/s": 1, "Tbyte/s": 1e3}


def values_of(path: Path) -> Values:
    """Read a file.

    Raises:
        Exception: The file is not one of a profiler; which one is up to the libraries.
    """
    data = path.read_bytes()
    if data.startswith(b"NVR\0"):
        return _report(path)
    data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    return (
        _trace(json.loads(data, parse_float=Fraction))
        if data.lstrip()[:1] in (b"{", b"[")
        else _csv(data.decode("utf-8", "replace"))
    )


def _report(path: Path) -> Values:
    import ncu_report

    report = ncu_report.load_report(str(path))
    found: Values = {}
    actions = [action for part in report for action in part]
    for number, action in enumerate(actions):
        here = f"launch {number}: "
        found[here + "demangled"] = action.name(action.NameBase_DEMANGLED)
        found[here + "name"] = action.name()
        cells = {raw: action.metric_by_name(raw) for raw in (*RAW.values(), *map(_STALL.format, REASONS))}
        numbers = {
            raw: cell.as_double() for raw, cell in cells.items() if cell is not None and cell.has_value()
        }
        for name, raw in RAW.items():
            if raw in numbers:
                found[here + name] = numbers[raw] * {"duration_us": 1e-3, "dram_gb_per_s": 1e-9}.get(name, 1)
                found[here + f"unit of {raw}"] = cells[raw].unit()
        if number == 0:
            found |= _every_metric(here, action)
        found |= _stalls(here, {reason: numbers.get(_STALL.format(reason)) for reason in REASONS}, found)
    return found | _total(found, len(actions))


def _every_metric(here: str, action: Any) -> Values:
    found: Values = {}
    for raw in action.metric_names():
        metric = action.metric_by_name(raw)
        value = metric.value() if metric.has_value() else None
        if isinstance(value, (int, float)) and math.isfinite(value):
            found[here + raw] = float(value)
            if not raw.startswith("derived__"):
                found[here + f"unit of {raw}"] = metric.unit()
    return found


def _stalls(here: str, reasons: dict[str, float | None], found: Values) -> Values:
    whole = found.get(here + "warp_cycles_per_instruction")
    if not isinstance(whole, float) or not whole:
        return {}
    return {f"{here}stall.{name}": 100 * part / whole for name, part in reasons.items() if part is not None}


def _total(found: Values, launches: int) -> Values:
    times = [
        value for key, value in found.items() if key.endswith(": duration_us") and isinstance(value, float)
    ]
    return {"all: launches": float(launches), **({"all: duration_us": sum(times)} if times else {})}


def _csv(text: str) -> Values:
    import pandas as pd

    lines = [line for line in text.splitlines() if not line.startswith("==")]
    start = next(i for i, line in enumerate(lines) if "Kernel Name" in line and "ID" in line)
    frame = pd.read_csv(io.StringIO("\n".join(lines[start:])), dtype=str, keep_default_na=False)
    found: Values = {}
    if "Metric Name" not in frame:
        units, rows = frame.iloc[0], frame.iloc[1:]
        for number, (_, row) in enumerate(rows.iterrows()):
            here = f"launch {number}: "
            found[here + "demangled"] = _whole(row["Kernel Name"])
            for name, raw in RAW.items():
                if raw in frame:
                    found |= _cell(here, name, row[raw], units[raw])
        return found | _total(found, len(rows))
    keys = [name for name in ("ID", "Process ID", "Kernel Name", "Context") if name in frame]
    begins = (frame[keys] != frame[keys].shift()).any(axis=1).cumsum()
    for number, (_, group) in enumerate(frame.groupby(begins, sort=False)):
        here = f"launch {number}: "
        found[here + "demangled"] = _whole(group["Kernel Name"].iloc[0])
        for _, row in group.iterrows():
            label, unit, section = row["Metric Name"], row["Metric Unit"], row.get("Section Name", "")
            short = LABELS.get(label) or SHORT.get(label)
            if label == "Memory Throughput":
                short = "memory_throughput" if unit == "%" else "dram_gb_per_s"
            if short and row.get("Body Item Label", "") == "" and "Tables" not in section:
                found |= _cell(here, short, row["Metric Value"], unit)
    return found | _total(found, begins.iloc[-1] if len(frame) else 0)


def _whole(name: str) -> str:
    """Return a name with the bracket that ncu cuts."""
    return re.sub(r"(^|[ ,:])unnamed>", r"\1<unnamed>", name)


def _cell(here: str, name: str, text: str, unit: str) -> Values:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return {}
    if value != value:
        return {}
    # Older versions write `usecond` and `Gbyte/second`.
    scales = {"duration_us": TIMES_US, "dram_gb_per_s": RATES_GB}.get(name)
    return {here + name: value * (scales[unit.replace("second", "s")] if scales else 1)}


def _trace(content: Any) -> Values:
    """Add up a trace with fractions, so that no digit is lost, each GPU for itself."""
    events = content if isinstance(content, list) else content["traceEvents"]
    kinds = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
    gpus: dict[object, list[Any]] = defaultdict(list)
    for event in events:
        if str(event.get("cat") or "").lower() in kinds:
            gpus[event.get("args", {}).get("device", event.get("pid"))].append(event)
    found: Values = {}
    for gpu, mine in gpus.items():
        spans = sorted(
            (Fraction(str(e["ts"])), Fraction(str(e["ts"])) + Fraction(str(e.get("dur", 0)))) for e in mine
        )
        busy, covered = Fraction(0), spans[0][0]
        for start, end in spans:
            busy += max(Fraction(0), end - max(start, covered))
            covered = max(covered, end)
        kernels = [event for event in mine if event["cat"].lower() == "kernel"]
        here = f"GPU {gpu}: "
        found[here + "launches"] = float(len(kernels))
        found[here + "copies"] = float(sum("memcpy" in e["cat"].lower() for e in mine))
        found[here + "span_us"] = float(covered - spans[0][0])
        found[here + "busy_us"] = float(busy)
        for name in {event["name"] for event in kernels}:
            same = [event for event in kernels if event["name"] == name]
            found[f"{here}{name}: calls"] = float(len(same))
            found[f"{here}{name}: total_us"] = float(sum(Fraction(str(e.get("dur", 0))) for e in same))
            registers = {int(e.get("args", {}).get("registers per thread", 0)) for e in same}
            found[f"{here}{name}: registers"] = " ".join(map(str, sorted(registers)))
    return found


if __name__ == "__main__":
    from pathlib import Path as _Path

    # NVIDIA's library can end the process: one for each file.
    print(json.dumps(values_of(_Path(sys.argv[1]))))
