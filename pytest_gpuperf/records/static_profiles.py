"""Kernels compiled for architectures, as profiles of the measurements of a test."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.run import (
    NO_INSTRUCTIONS,
    STATIC_SOURCE,
    KernelProfile,
    Profile,
    StaticKernel,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records import Measurement, MetricValue

ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
"""One architecture for each kind of tensor core since Ampere."""
INSTRUCTIONS = ("tensor_instructions", "copy_instructions")
"""Facts whose values are several words."""

_ARCH = re.compile(r"sm_\d+[af]?(?=\]?\Z)")
"""The end of a label."""


def label_of(label: str, arch: str) -> str:
    """Return the label of a kernel: `sm_90`, or `backward[sm_90]` if the test has given a label."""
    return arch if label == "main" else f"{label}[{arch}]"


def profile_of(kernel: StaticKernel) -> Profile:
    """Convert a kernel to a row of exact counters that limits and baselines can judge."""
    metrics: dict[str, MetricValue] = {
        **{
            name: value
            for name, value in msgspec.structs.asdict(kernel).items()
            if name not in ("name", "arch", "code", *INSTRUCTIONS)
        },
        **{name: " ".join(getattr(kernel, name)) or NO_INSTRUCTIONS for name in INSTRUCTIONS},
    }
    launch = KernelProfile(
        name=kernel.name, code=kernel.code, block=(kernel.block_size, 1, 1), metrics=metrics
    )
    return Profile(kernels=(launch,), combined=metrics, source=STATIC_SOURCE)


def kernels_of(measurements: Mapping[str, Measurement], label: str) -> dict[str, StaticKernel]:
    """Return the kernels behind the profiles of one label of a test, by architecture.

    Raises:
        GpuperfError: A record, read from a file, has another form.
    """
    return {
        arch[0]: _kernel_of(measurement.profile, arch[0])
        for kept, measurement in measurements.items()
        if measurement.is_static
        and measurement.profile is not None
        and (arch := _ARCH.search(kept))
        and label_of(label, arch[0]) == kept
    }


def _kernel_of(profile: Profile, arch: str) -> StaticKernel:
    metrics = dict(profile.combined)
    words = {key: str(metrics.pop(key, "")) for key in INSTRUCTIONS}
    lists = {key: [] if text == NO_INSTRUCTIONS else text.split() for key, text in words.items()}
    name, code = (profile.kernels[0].name, profile.kernels[0].code) if profile.kernels else ("", "")
    given = {**metrics, **lists, "name": name, "arch": arch, "code": code}
    try:
        return msgspec.convert(given, StaticKernel, strict=False)
    except msgspec.ValidationError as error:
        raise GpuperfError(
            f"the recorded kernel {name} of {arch} does not have the expected form: {error}"
        ) from None
