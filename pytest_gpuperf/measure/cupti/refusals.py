"""What CUPTI's refusals mean and what people should do about them, by `CUptiResult` (`cupti_result.h`)."""

from __future__ import annotations

from pytest_gpuperf.measure.ncu.ncu_messages import BUSY_ADVICE, PERMISSION_ADVICE

_OTHER_CLIENT = (
    "another profiler holds CUPTI in this process",
    "run without it: torch.profiler, proton, ncu, nsys, compute-sanitizer or cuda-gdb",
)
_UNSUPPORTED = "its counters cannot be read by a process in it; --gpuperf-counters=off only times"

EXPLANATIONS: dict[int, tuple[str, str]] = {
    8: ("there is no memory left for CUPTI's replays", "profile a smaller shape"),
    15: (
        "CUPTI finds no driver that fits it, or not its own libnvperf libraries",
        "install the nvidia-cuda-cupti of torch's CUDA version, with no other on LD_LIBRARY_PATH",
    ),
    23: _OTHER_CLIENT,
    26: ("another process holds the GPU's counters (DCGM, ncu or a CUPTI client)", BUSY_ADVICE),
    27: ("CUPTI cannot profile on this GPU or system", ""),
    33: ("this is a virtual GPU", _UNSUPPORTED),
    35: ("the driver denies hardware counters to this user", PERMISSION_ADVICE),
    36: _OTHER_CLIENT,
    38: ("CUPTI cannot profile on this GPU", "a GPU of compute capability 7.5 or later can be profiled"),
    39: _OTHER_CLIENT,
    40: ("the hypervisor denies hardware counters to this virtual GPU", "allow profiling for it on the host"),
    41: ("the GPU is in confidential computing mode", _UNSUPPORTED),
    42: ("this is a mining processor", _UNSUPPORTED),
    43: ("this is a slice of a GPU (MIG)", _UNSUPPORTED),
    44: ("the GPU is one of an SLI group", _UNSUPPORTED),
    45: ("this is WSL", _UNSUPPORTED),
    46: ("this CUPTI is older than the GPU and does not know it", "install a torch for a later CUDA"),
}
"""Cause and advice. What is not in here is shown by CUPTI's own name of it."""
