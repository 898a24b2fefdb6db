"""Frames of traces."""

from __future__ import annotations

from pytest_gpuperf.features.export.data_frame import to_frame
from pytest_gpuperf.records import Measurement
from run_builders import record, run
from trace_builders import BLOCK


def test_frame_has_trace_values_and_kernels() -> None:
    frame = to_frame(run(record(main=Measurement(trace=BLOCK)))).set_index(["kernel", "metric"])
    assert frame.loc[("", "launches"), "value"] == 202
    core = frame.loc["ampere_sgemm_128x128_nn"]
    assert core.loc["trace.calls", "value"] == 8
    assert core.loc["trace.kernel_class", "text"] == "large_core"
