"""A fake compute-sanitizer, and fake kernels with errors.

The fake tool runs the program. A project under test gets a module `kernels`: its functions write the same log
as the real tool.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

Behaviour = Literal["reports", "sees nothing", "refuses", "loses marks", "loses all but the first mark"]

SCRIPT = """#!{python}
import os, pathlib, re, sys
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("NVIDIA (R) Compute Sanitizer\\nVersion 2025.3.1.0 (build 36400806) (public-release)")
    sys.exit()
behaviour = {behaviour!r}
log = pathlib.Path(arguments[arguments.index("--log-file") + 1])
log.write_text("========= COMPUTE-SANITIZER\\n")
log.with_name("arguments").write_text("\\n".join(arguments))
if behaviour == "refuses":
    log.write_text("========= Error: Device not supported. Please refer to the manual\\n")
    sys.exit(255)
os.environ["FAKE_SANITIZER_LOG"] = "/dev/null" if behaviour == "sees nothing" else str(log)
os.environ["FAKE_SANITIZER_TOOL"] = arguments[arguments.index("--tool") + 1]
sys.path.append({tests!r})
import forked
status = forked.call(arguments[arguments.index(sys.executable):])
if behaviour.startswith("loses"):
    kept = "1" if "first" in behaviour else "[13579]"
    entries = log.read_text().split("========= \\n")
    mark = re.compile("gpuperf_marker_(?!" + kept + "\\\\+)")
    log.write_text("========= \\n".join(entry for entry in entries if not mark.search(entry)))
with log.open("a") as stream:
    stream.write("========= ERROR SUMMARY: 3 errors\\n")
sys.exit(255 if status < 0 else status)
"""

KERNELS = """
import os

context_has_ended = False

def report(kernel, threads=1, place="k.py:12", size=4):
    lines = ""
    for thread in range(threads):
        lines += (
            f"========= Invalid __global__ write of size {size} bytes\\n"
            f"=========     at {kernel}+0x90 in /home/me/{place}\\n"
            f"=========     by thread ({thread},0,0) in block (3,0,0)\\n"
            "=========     Address 0x7f8c2a000190 is out of bounds\\n"
            "=========     and is 1 bytes after the nearest allocation at 0x7f8c2a000000 of size 400 bytes\\n"
            "========= \\n"
        )
    if "FAKE_SANITIZER_LOG" in os.environ:
        with open(os.environ["FAKE_SANITIZER_LOG"], "a") as stream:
            stream.write(lines)

def end_context():
    global context_has_ended
    context_has_ended = True

class MarkerLauncher:
    def __init__(self, tool):
        assert tool == os.environ["FAKE_SANITIZER_TOOL"]

    def launch(self, name):
        if context_has_ended:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\\nSearch for it")
        report(name)
"""
CONFTEST = """
import kernels
import pytest_gpuperf.features.sanitizer.marker_launcher

pytest_gpuperf.features.sanitizer.marker_launcher.MarkerLauncher = kernels.MarkerLauncher
"""


def install(folder: Path, behaviour: Behaviour = "reports") -> Path:
    """Write the fake tool into a folder and return its path."""
    path = folder / "compute-sanitizer"
    path.write_text(
        SCRIPT.format(python=sys.executable, behaviour=behaviour, tests=str(Path(__file__).parent))
    )
    path.chmod(0o755)
    return path


def make_project(folder: Path) -> None:
    """Write the module `kernels`, and replace the real marks with its own."""
    (folder / "kernels.py").write_text(KERNELS)
    with (folder / "conftest.py").open("a") as stream:
        stream.write(CONFTEST)
