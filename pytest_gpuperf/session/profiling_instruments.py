"""Instruments of the child that runs under ncu: only `profile` does its work."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.records.passes import Event, PassFolder
from pytest_gpuperf.session.child_instruments import ChildInstruments

if TYPE_CHECKING:
    from pytest_gpuperf.records import Profile, Timing
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.records.selection import Selection

NOT_IN_RANGE_NAMES = re.compile(r'[^ -~]|"')
"""Not ASCII, or what ncu's CSV puts around a name."""


class ProfilingInstruments(ChildInstruments):
    """Runs each profiled call once between cudaProfilerStart and Stop, inside a range of its name."""

    def __init__(self, folder: PassFolder) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """One call, and a time that agrees with every bound."""
        call()
        torch.cuda.synchronize()
        return super().time(call, mode=mode, bytes=bytes, flops=flops)

    def profile(self, call: Call, *, kernels: Selection, metrics: tuple[str, ...]) -> Profile:
        """Run the call once where ncu sees it."""
        self.warm_up(call)
        # ncu's reader has to give the name back as it was: what is not plain in it is for people only.
        readable = NOT_IN_RANGE_NAMES.sub("?", f"{call.nodeid}#{call.label}")
        name = f"gpuperf:{next(self._numbers)}:{readable}"
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        runtime.cudaProfilerStart()
        # Start/end ranges, unlike push/pop, hold what autograd's thread launches.
        handle = torch.cuda.nvtx.range_start(name)
        try:
            call()
            torch.cuda.synchronize()
        finally:
            torch.cuda.nvtx.range_end(handle)
            runtime.cudaProfilerStop()
        self._folder.tell(Event(call.nodeid, call.label, name))
        return super().profile(call, kernels=kernels, metrics=metrics)
