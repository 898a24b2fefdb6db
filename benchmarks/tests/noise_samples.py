"""Make noise_samples.jsonl.gz: a noise study of two H200s as samples of `benchmarks.gate_power`.

    python benchmarks/tests/noise_samples.py FOLDER > benchmarks/tests/noise_samples.jsonl.gz

FOLDER has one `noise_gpuG_processP.json.gz` for each fresh process. A kernel `x1.02` does 2 % more work than
`x1.0`. Blocks are replays of a CUDA graph of ten launches, launches are event pairs back to back. Kernels
without doses are left out, and all launches after the thirtieth. The study had no clocks and no pairs.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import msgspec

from benchmarks.gate_power.samples import SessionSample
from pytest_gpuperf.records import Timing
from pytest_gpuperf.statistics.decision import interquartile_range, trimmed_mean

LAUNCHES = 30


def main(folder: Path) -> None:
    lines = []
    for process, path in enumerate(sorted(folder.glob("noise_*.json.gz"))):
        card = path.name.split("_")[1]
        for name, samples in json.loads(gzip.decompress(path.read_bytes()))["data"].items():
            kernel, _, dose = name.partition(" x")
            if not dose:
                continue
            blocks = [_us(block) for block in samples["graph"]]
            cost = samples["cost_s"]
            line = SessionSample(
                process=process,
                kernel=kernel,
                permille=round(1000 * (float(dose) - 1)),
                card=card,
                timing=Timing(
                    mode="hot",
                    time_us=_rounded(trimmed_mean(blocks)),
                    spread_pct=round(100 * interquartile_range(blocks) / trimmed_mean(blocks), 3),
                    blocks_us=tuple(blocks),
                    calls_per_block=10,
                ),
                seconds=round(cost["graph"], 4),
                launches_us=tuple(_us(launch) for launch in samples["hot"][:LAUNCHES]),
                launches_s=round(cost["hot"] * LAUNCHES / len(samples["hot"]), 4),
                do_bench_us=_us(samples["do_bench"]),
                do_bench_s=round(cost["do_bench"], 4),
            )
            lines.append(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.write(gzip.compress(b"".join(lines), mtime=0))


def _us(ms: float) -> float:
    return _rounded(1000 * ms)


def _rounded(us: float) -> float:
    return float(f"{us:.5g}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
