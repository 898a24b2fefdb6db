"""A kernel that spins for a number of cycles, for a torch that has none."""

from __future__ import annotations

from functools import cache

import torch

from pytest_gpuperf.measure.device.driver import Driver, Kernel

_NAME = "gpuperf_spin"
PTX = f"""
.version 6.4
.target sm_70
.address_size 64
.visible .entry {_NAME}(.param .u64 cycles)
{{
    .reg .pred %p;
    .reg .b64 %now, %end;
    ld.param.u64 %end, [cycles];
    mov.u64 %now, %clock64;
    add.u64 %end, %end, %now;
again:
    mov.u64 %now, %clock64;
    setp.lt.u64 %p, %now, %end;
    @%p bra again;
    ret;
}}
"""


def spin(cycles: int) -> None:
    """Queue a kernel on the current stream that spins for this many cycles of the SM clock.

    Raises:
        GpuperfError: The driver refuses it.
    """
    _kernel(torch.cuda.current_device()).launch(1, 1, cycles, torch.cuda.current_stream().cuda_stream)


@cache
def _kernel(_device: int) -> Kernel:
    return Driver().load(PTX, _NAME)
