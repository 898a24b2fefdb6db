"""Verify one timing: its records, the state of the process, and its calls once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from msgspec.structs import replace

from pytest_gpuperf.compat.torch_names import profiler_runs
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.timing.marker_kernels import REFUSED
from pytest_gpuperf.measure.verification.cupti_records import contained
from pytest_gpuperf.measure.verification.reexecution import RefusedError, Replay
from pytest_gpuperf.measure.verification.retiming import reruns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.measure.restoration import Before
    from pytest_gpuperf.measure.timing.prepared_call import PreparedCall
    from pytest_gpuperf.measure.verification.retiming import Rerun
    from pytest_gpuperf.records import Timing, Verification
    from pytest_gpuperf.records.call import Call

MOST_SINGLE = 3.0
SINGLE_EXTRA_US = 20.0
"""Largest time of a call by itself, over that of a call among others and with the launch of its graph."""


class Verifier:
    """Verifies the timing of one callable.

    Args:
        call: The call; its output is compared with its reference, if it has one.
        before: What it may write, and the state of the process, noted before the timing.
        originals: Functions as they have to be after the timing.
        strict: True to refuse a time that is doubted.
    """

    def __init__(
        self,
        call: Call,
        before: Before,
        originals: originals.Originals | None = None,
        *,
        strict: bool = False,
    ) -> None:
        self._call = call
        self._before = before
        self._originals = originals
        self._strict = strict
        self._profiled = profiler_runs()

    def __call__(self, prepared: PreparedCall, timing: Timing, mode: str) -> Timing:
        """Verify a timing.

        Args:
            prepared: The callable that was timed.
            timing: Its time.
            mode: The mode that was asked for.

        Returns:
            The timing with its verification.

        Raises:
            UncontainedError: The time does not contain all work of a call.
            GpuperfError: Calls launch at another time, or functions of a library were replaced.
        """
        timing = contained(prepared, timing, mode)
        found = self.replay(lambda: reruns_of(prepared.batch))
        doubts = (*(timing.verification.doubts if timing.verification else ()), *found.doubts)
        most_us = MOST_SINGLE * timing.time_us + SINGLE_EXTRA_US
        if timing.mode in ("hot", "cold") and found.single_us > most_us:
            # A kernel can see from the GPU's clock that another one has just ended, and leave its work out.
            doubts += (
                f"a call by itself takes {found.single_us:.4g} µs, and one of many {timing.time_us:.4g} µs; "
                "let every call do all of its work",
            )
        if self._strict and doubts and not found.refused:
            found = replace(found, refused=f"{REFUSED}{doubts[0]}")
        self._refuse_patches()
        return replace(timing, verification=replace(found, doubts=doubts))

    def replay(self, reruns: Callable[[], Sequence[Rerun]]) -> Verification:
        """Look for changes that the callable has made, and run some of the timed calls again.

        Args:
            reruns: Returns the calls.
        """
        begin = originals.now()
        one = Replay(self._call, self._before)
        why = refused = ""
        try:
            if changed := self._before.changed_argument():
                raise RefusedError(
                    f"{changed} was changed while it was timed; expected its values as before; next "
                    "step: if the callable is meant to write to it, name it in mutates="
                )
            if change := self._before.process.change():
                raise RefusedError(
                    f"the callable has changed {change}; expected a callable that leaves it as it is; next "
                    "step: if the test is meant to run so, set it before the first call"
                )
            one.run(reruns())
        except RefusedError as error:
            refused = f"{REFUSED}{error}"
        except GpuperfError as error:
            why = error.found
        except torch.cuda.OutOfMemoryError:
            why = "the GPU has too little free memory"
        except Exception as error:  # of the callable, or of its reference
            why = f"other values raise {type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        finally:
            one.end()
        seconds = round(originals.now() - begin, 4)
        why = why or one.found.not_verified
        return replace(one.found, refused=refused, not_verified=why, seconds=seconds)

    def _refuse_patches(self) -> None:
        if profiler_runs() and not self._profiled:
            raise GpuperfError(
                f"{REFUSED}the callable has started a torch.profiler, which keeps other records away",
                next_step="start it before the test, or use gpuperf.trace",
            )
        if self._originals is not None and (patched := self._originals.patched()):
            raise GpuperfError(
                f"{REFUSED}{patched} is not the original function",
                expected="clocks, synchronisation and comparisons as their libraries define them",
            )
