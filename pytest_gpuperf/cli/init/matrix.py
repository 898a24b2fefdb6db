"""The measuring workflow for several models of GPU, and for shards of the suite."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_SHARDS = 100
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def labels_of(text: str) -> list[str]:
    """Read `h100,h200`.

    Raises:
        GpuperfError: A label is empty, given twice, or has unusual characters.
    """
    labels = [label.strip() for label in text.split(",")]
    if len(set(labels)) < len(labels) or not all(map(_LABEL.fullmatch, labels)):
        raise GpuperfError(
            f"--gpus is {text!r}",
            expected="different labels of runners, of letters, digits, dots, dashes and underscores",
            next_step="type gpuperf init --gpus h100,h200",
        )
    return labels


def for_gpus(workflow: str, labels: Sequence[str]) -> str:
    """Return a workflow with a job for each model of GPU.

    Args:
        workflow: The workflow for one GPU.
        labels: Labels of the runners, one for each model.
    """
    return re.sub(r"(?m)^( +)gpu: \[gpu\] #.*$", rf"\1gpu: [{', '.join(labels)}]", workflow)


def with_shards(workflow: str, merge_job: str, shards: int) -> str:
    """Return the measuring workflow with a job for each shard, and one that merges the runs of all jobs.

    Args:
        workflow: The workflow.
        merge_job: The job that merges.
        shards: Parts of the suite; 1 for the whole.
    """
    text = workflow
    if shards > 1:
        numbers = ", ".join(map(str, range(1, shards + 1)))
        text = re.sub(r"(?m)^( +)(gpu: \[.*)$", rf"\1\2\n\1shard: [{numbers}]", text, count=1)
        text = text.replace(
            "name: measure (${{ matrix.gpu }})", "name: measure (${{ matrix.gpu }}, ${{ matrix.shard }})"
        )
        for place in ("group: gpuperf-${{ matrix.gpu }}", "name: gpuperf-${{ matrix.gpu }}"):
            text = text.replace(place, f"{place}-${{{{ matrix.shard }}}}")
        text = text.replace(
            "perf --gpuperf-replay=never", f'perf --gpuperf-replay=never "--gpuperf-shard=$SHARD/{shards}"'
        )
        text = text.replace(
            "      - name: Measure and judge\n",
            "      - name: Measure and judge\n        env:\n          SHARD: ${{ matrix.shard }}\n",
        )
    return text + merge_job
