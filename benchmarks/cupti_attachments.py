"""Measure how attaching and detaching CUPTI changes the time of a CUDA graph of many kernels, in one process.

python -m benchmarks.cupti_attachments [SEQUENCE ...]    # on a GPU; each in a fresh process

A SEQUENCE has steps joined by `+`. Each step attaches CUPTI, records ten plain calls, and detaches it again
(`cuptiFinalize`), but:

- `replays` also replays a graph while it records, and `replays-after` when it has stopped, but is attached;
- `captures` captures and replays another graph while it records;
- `stays` leaves CUPTI attached;
- `only` neither records nor launches, and detaches.

Printed are microseconds a call of a graph of ten `torch.sort`: at first, after each step, and of a graph that
is captured at the end. Without a change by CUPTI all are equal.
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median

STEPS = ("plain", "replays", "replays-after", "captures", "stays", "only")
SEQUENCES = (
    "plain+plain+plain",
    "replays+replays+replays",
    "replays-after+replays-after+plain",
    "captures+captures+captures",
    "plain+stays+only",
    "only+plain+stays+only",
    "only+replays+replays+only",
    "stays+stays+stays",
)
CALLS, WARM, REPLAYS = 10, 60, 40


def measure(sequence: str) -> list[float]:
    """Return the microseconds of a call at first, after each step, and of a new graph."""
    import torch

    from pytest_gpuperf.measure.cupti.activity import recorded
    from pytest_gpuperf.measure.cupti.libcupti import OWNER, cupti
    from pytest_gpuperf.measure.timing.graph import capture, replay_us

    x = torch.randint(0, 1 << 30, (1 << 20,), device="cuda")

    def calls() -> None:
        for _ in range(CALLS):
            torch.sort(x)

    def us(graph: torch.cuda.CUDAGraph) -> float:
        for _ in range(WARM):
            replay_us(graph)
        return median(replay_us(graph) for _ in range(REPLAYS)) / CALLS

    calls()
    graph = capture(calls)
    found, kept = [us(graph)], []
    for step in sequence.split("+"):
        if step == "only":
            OWNER.attach(cupti())
        else:
            with recorded(stay=True):
                calls()
                if step == "replays":
                    replay_us(graph)
                if step == "captures":
                    kept.append(capture(calls))
                    replay_us(kept[-1])
            if step == "replays-after":
                replay_us(graph)
        if step != "stays":
            OWNER.detach()
        found.append(us(graph))
    return [*found, us(capture(calls))]


def main(sequences: list[str]) -> None:
    """Measure each sequence in a fresh process, or one in this process."""
    for sequence in sequences or SEQUENCES:
        if unknown := set(sequence.split("+")) - set(STEPS):
            sys.exit(f"{sorted(unknown)} is no step; expected some of {', '.join(STEPS)}, joined by +")
        if len(sequences) == 1:
            print(f"{sequence:40}", *(f"{one:8.2f}" for one in measure(sequence)), flush=True)
        else:
            subprocess.run([sys.executable, "-m", "benchmarks.cupti_attachments", sequence], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
