"""Make noise_sessions.json: the time of each session of a noise study, in µs by process and kernel.

    python tests/data/noise_sessions.py FOLDER > tests/data/noise_sessions.json

FOLDER has one `noise_gpuG_processP.json.gz` for each fresh process, on two H200s. A kernel `x1.02` does 2 %
more work than `x1.0`. A block is one replay of a CUDA graph of ten launches; the time is the 20 % trimmed
mean over 40 of them.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from pytest_gpuperf.statistics.decision import trimmed_mean


def main(folder: Path) -> None:
    sessions = {}
    for path in sorted(folder.glob("noise_*.json.gz")):
        kernels = json.loads(gzip.decompress(path.read_bytes()))["data"]
        name = path.name.removeprefix("noise_").removesuffix(".json.gz")
        sessions[name] = {
            kernel: float(f"{1000 * trimmed_mean(samples['graph']):.6g}")
            for kernel, samples in kernels.items()
        }
    sys.stdout.write(json.dumps(sessions, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
