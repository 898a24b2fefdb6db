"""Measurements as plain data: typed, immutable, serialisable, with units in the names.

`measure` returns these, `judge` and `report` read them, and a run file (`run.json`) is one
`Run` written as JSON. No module here needs a GPU.
"""

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.call import Fingerprint
from pytest_gpuperf.records.environment import NO_GPU, Environment, GpuInfo, Toolchain
from pytest_gpuperf.records.fuzzing import Fuzzing
from pytest_gpuperf.records.kernel_code import LaunchedCode, LaunchedKernel
from pytest_gpuperf.records.run import (
    RUN_SCHEMA,
    Accuracy,
    Correctness,
    KernelProfile,
    Measurement,
    MetricValue,
    Profile,
    Run,
    SanitizerHit,
    SanitizerResult,
    StaticKernel,
    TestRecord,
)
from pytest_gpuperf.records.settlement import AgainstTiming, Settlement
from pytest_gpuperf.records.timing import (
    Autotuning,
    Conditions,
    OtherTime,
    SingleCall,
    StreamWork,
    Timing,
    TimingMode,
    TimingSource,
    Verification,
    WarmUp,
    Workload,
)
from pytest_gpuperf.records.trace import (
    Communication,
    Idle,
    KernelClass,
    Trace,
    TracedKernel,
)
from pytest_gpuperf.statistics.clock_model import ClockModel

__all__ = [
    "NO_GPU",
    "RUN_SCHEMA",
    "Accuracy",
    "AgainstTiming",
    "Autotuning",
    "ClockModel",
    "Communication",
    "Conditions",
    "Correctness",
    "Environment",
    "Fingerprint",
    "Fuzzing",
    "GpuInfo",
    "Idle",
    "KernelClass",
    "KernelProfile",
    "LaunchedCode",
    "LaunchedKernel",
    "Measurement",
    "MetricValue",
    "OtherTime",
    "Profile",
    "Record",
    "Run",
    "SanitizerHit",
    "SanitizerResult",
    "Settlement",
    "SingleCall",
    "StaticKernel",
    "StreamWork",
    "TestRecord",
    "Timing",
    "TimingMode",
    "TimingSource",
    "Toolchain",
    "Trace",
    "TracedKernel",
    "Verification",
    "WarmUp",
    "Workload",
]
