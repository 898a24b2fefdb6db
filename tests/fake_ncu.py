"""A fake ncu program: writes the output of a real ncu on an H200, or fails as a real one does."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Literal

CAPTURE = Path(__file__).parent / "data" / "captures" / "profiling_pass"

Behaviour = Literal[
    "records",
    "is denied",
    "matches nothing",
    "writes no report it can read",
    "hangs",
    "crashes",
    "runs the program",
    "profiles the program",
]

SCRIPT = """#!{python}
import gzip, json, os, pathlib, shutil, sys, time
arguments = sys.argv[1:]
capture = pathlib.Path({capture!r})
if arguments == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 36398880)")
else:
    report = pathlib.Path(arguments[arguments.index("--export") + 1])
    log = pathlib.Path(arguments[arguments.index("--log-file") + 1])
    report.with_name("arguments").write_text("\\n".join(arguments))
    behaviour = {behaviour!r}
    if behaviour == "is denied":
        log.write_text("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters\\n")
        sys.exit(1)
    if behaviour == "hangs":
        pathlib.Path(report.with_name("pid")).write_text(str(os.getpid()))
        time.sleep(60)
    if behaviour == "profiles the program":
        report.write_bytes(b"what the test says is in it")
    if behaviour in ("runs the program", "profiles the program"):
        sys.path.append({tests!r})
        import forked
        sys.exit(forked.call(arguments[arguments.index(sys.executable):]))
    if behaviour == "crashes":
        os.kill(os.getpid(), 11)
    events = (capture / "events.jsonl").read_text()
    # That the tests ran to their ends was told only later than this was captured.
    ran = [json.dumps({{"nodeid": json.loads(line)["nodeid"]}}) + "\\n" for line in events.splitlines()]
    report.with_name("events.jsonl").write_text(events + "".join(ran))
    shutil.copy(capture / "ncu.log", log)
    if behaviour == "records":
        report.write_bytes(gzip.open(capture / "report.ncu-rep.gz").read())
    elif behaviour == "writes no report it can read":
        report.write_bytes(b"garbage")
"""


def install(folder: Path, behaviour: Behaviour = "records") -> Path:
    """Write the fake program into a folder and return its path."""
    path = folder / "ncu"
    tests = str(Path(__file__).parent)
    path.write_text(
        SCRIPT.format(python=sys.executable, capture=str(CAPTURE), behaviour=behaviour, tests=tests)
    )
    path.chmod(0o755)
    return path


def report(folder: Path) -> Path:
    """Unpack the captured report."""
    path = folder / "captured.ncu-rep"
    path.write_bytes(gzip.decompress((CAPTURE / "report.ncu-rep.gz").read_bytes()))
    return path


LIBRARY = """
class Metric:
    def __init__(self, value): self._value = value
    def has_value(self): return True
    def value(self): return self._value
    def unit(self): return {unit!r}
class Action:
    NameBase_DEMANGLED = 1
    values = {values}
    def name(self, base=0): return 'kernel'
    def metric_by_name(self, name): return Metric(self.values[name]) if name in self.values else None
    def metric_names(self): return list(self.values)
    def nvtx_state(self): return None
load_report = lambda path: [[Action()]]
"""
"""A copy of ncu_report without rules, whose only launch has these values."""
