"""The source of measurements on the GPU of this machine."""

from __future__ import annotations

import re
import zlib
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from pytest_gpuperf.against.callable_rounds import time_in_turn
from pytest_gpuperf.compat.compiler_names import choices_noted, choices_pinned
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.autotuner_choices import other_choices
from pytest_gpuperf.records.baseline import same_quantity
from pytest_gpuperf.records.kernel_code import is_same_code
from pytest_gpuperf.records.timing import KnownTime
from pytest_gpuperf.registry import instrument
from pytest_gpuperf.session.progress import Phases
from pytest_gpuperf.session.seeds import random_numbers_kept
from pytest_gpuperf.statistics.thresholds import SCREEN_PCT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_gpuperf.baseline.store import Expectations
    from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
    from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass
    from pytest_gpuperf.measure.first_calls import CodeReader, FirstCalls
    from pytest_gpuperf.measure.reachable_tensors import StateSnapshot
    from pytest_gpuperf.measure.timing.timer import Timer
    from pytest_gpuperf.records import (
        AgainstTiming,
        Correctness,
        Fuzzing,
        LaunchedCode,
        Profile,
        Timing,
        Trace,
        WarmUp,
    )
    from pytest_gpuperf.records.baseline import MeasurementBaseline
    from pytest_gpuperf.records.call import Call, FuzzCall, Selection
    from pytest_gpuperf.records.passes import SelectedTest
    from pytest_gpuperf.session.progress import Display
    from pytest_gpuperf.session.runner import Processes


class LiveSource:
    """Measures in this process; a profiling pass may have read the counters before.

    Args:
        counters: Has the counters of each call.
        timer: Times on the current device.
        codes: Reads the code of calls.
        display: Shows the present measurement.
        expected: Has the times that the baselines expect; None without baselines.
        traces: Folder for Chrome traces; need not exist.
        verify: `auto`, `strict` or `off`.
    """

    def __init__(
        self,
        counters: ProfilingPass | CuptiCounters,
        timer: Timer,
        codes: CodeReader,
        display: Display,
        *,
        expected: Expectations | None = None,
        traces: Path = Path(),
        verify: str = "auto",
    ) -> None:
        from pytest_gpuperf.measure.device.originals import Originals

        self._counters = counters
        self._timer = timer
        self._codes = codes
        self.display = display
        self._expected = expected
        self._traces = traces
        self._verify = verify
        self._originals = Originals("pytest_gpuperf")
        """Functions as they have to be after a timing."""
        self.phases = Phases()
        """Seconds of the run."""
        self.tests: dict[str, SelectedTest] = {}
        """The selected tests, by node id."""
        self.processes: list[Processes] = []
        """Processes of features, which end with the run."""
        self._read: tuple[Call, LaunchedCode, StateSnapshot] | None = None
        """The call whose code was read last, until it is timed."""
        self._first_calls: dict[tuple[str, str], FirstCalls] = {}
        """Of calls that are not timed yet, by test and label."""

    def check(self, call: Call) -> Correctness:
        """Run the call on poisoned memory and compare."""
        with self.phases("checks"):
            return self._codes.watched(call.nodeid, partial(check, self._watched(call)))

    def fuzz(self, call: FuzzCall) -> Fuzzing:
        """Search for a case in which the function differs from its reference."""

        def progress(text: str) -> None:
            self.display.show(f"{call.nodeid}: fuzzed, {text}" if text else "")

        with self.phases("checks"):
            return fuzz(call, progress)

    def warm_up(self, call: Call) -> WarmUp:
        """Run the call until its time is steady."""
        with restored(call):
            return self._timer.warm_up(call)

    def code(self, call: Call) -> LaunchedCode | None:
        """Hash the code of the kernels that the call launches."""
        shown = self.display.shown(f"{call.nodeid}: compiles")
        with shown, self.phases("code"), restored(call) as before:
            code = self._codes.read(self._watched(call))
        self._read = (call, code, before)
        return code

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """Time the call, and note the size of its arguments."""
        from pytest_gpuperf.measure.correctness.call_tensors import argument_bytes

        known = self._expected.measurement(call.nodeid, call.label) if self._expected is not None else None
        with self.phases("times"):
            timing = self._time(call, known, mode=mode, bytes=bytes, flops=flops, verify=self._verify)
            if first_calls := self._first_calls.pop((call.nodeid, call.label), None):
                timing = first_calls.added_to(timing)
            if choice := other_choice(known, timing):
                choice_us = self._time_with(choice, call, known, timing)
                timing = replace(timing, autotuning=replace(timing.autotuning, baseline_choice_us=choice_us))
        count = argument_bytes(call.args, call.kwargs)
        return replace(timing, work=replace(timing.work, argument_bytes=count or None))

    def _time_with(
        self, choice: Mapping[str, str], call: Call, known: MeasurementBaseline | None, timing: Timing
    ) -> float | None:
        """Time the call again, with the configurations that autotuners had chosen for the baseline."""
        from pytest_gpuperf.compat.torch_names import templates_pinned

        time_us = None
        # What fails has a time all the same.
        with suppress(Exception), choices_pinned(choice), templates_pinned(choice):
            if choice.items() == {one for one in _choices(call) if one[0] in choice}:
                found = self._time(call, known, mode=timing.mode, bytes=0, flops=0, verify="off")
                time_us = found.time_us if found.source == timing.source else None
        with suppress(Exception):
            # Compile before counters are read.
            _choices(call)
        return time_us

    def _watched(self, call: Call) -> Call:
        """Return the call with its first calls watched, until it is timed."""
        from pytest_gpuperf.measure.first_calls import FirstCalls

        first_calls = self._first_calls.setdefault((call.nodeid, call.label), FirstCalls())
        return replace(call, fn=first_calls.watched(call.fn))

    def _time(
        self, call: Call, known: MeasurementBaseline | None, *, mode: str, bytes: int, flops: int, verify: str
    ) -> Timing:
        from pytest_gpuperf.measure.reachable_tensors import CallElsewhere, StateSnapshot
        from pytest_gpuperf.measure.verification.verifier import Verifier

        read, self._read = self._read, None
        _, code, before = read if read is not None and read[0] is call else (call, None, None)

        def progress(text: str) -> None:
            self.display.show(f"{call.nodeid}: {text}")

        with self.display.shown(f"{call.nodeid}: compiles"), random_numbers_kept():
            before = before or StateSnapshot(call)
            verifier = Verifier(call, before, self._originals, strict=verify == "strict")
            try:
                return self._timer.time(
                    call,
                    mode=mode,
                    bytes=bytes,
                    flops=flops,
                    progress=progress,
                    verify=(lambda _, timing, __: timing) if verify == "off" else verifier,
                    known=known_time(known, code),
                    elsewhere=partial(CallElsewhere, call),
                )
            finally:
                before.restore()

    def in_turn(self, first: Call, other: Call, *, mode: str) -> AgainstTiming:
        """Time both calls in turn, in rounds on tensors at three places in memory."""
        from pytest_gpuperf.measure.reachable_tensors import copied_call

        shown = self.display.shown(f"{first.nodeid}: {first.label} and {other.label} in turn")
        with shown, self.phases("times"), restored(first), restored(other):
            places = (first, copied_call(first), copied_call(first))
            return time_in_turn(self._timer, places, other, mode)

    def profile(self, call: Call, kernels: Selection) -> Profile:
        """Profile the call, or look it up in the report of the profiling pass."""
        if (test := self.tests.get(call.nodeid)) is None:
            found = "counters cannot be read in a test on several GPUs"
            raise GpuperfError(found, next_step="ask for gpuperf_ranks, or remove gpus= from the marker")
        try:
            with self.phases("counters"), restored(call):
                return self._counters.lookup(call, kernels, test.metrics)
        finally:
            # The next call may be timed, or need another profiler.
            self._counters.let_go()

    def trace(self, call: Call) -> Trace:
        """Record the call, and keep torch.profiler's trace."""
        tracing = instrument("trace")
        with self.display.shown(f"{call.nodeid}: traced"), restored(call):
            trace: Trace = tracing.capture(call, self._traces / trace_file_name(call.nodeid, call.label))
            return trace


def _choices(call: Call) -> set[tuple[str, str]]:
    """Call once, and return the kernels that are autotuned, each with a configuration of it."""
    chosen = set[tuple[str, str]]()
    with restored(call), choices_noted(lambda kernel, config: chosen.add((kernel, config))):
        call()
    return chosen


def known_time(known: MeasurementBaseline | None, code: LaunchedCode | None) -> KnownTime | None:
    """Return the time of a baseline for a call of some code; None if it has none."""
    if known is None or (time := known.time) is None:
        return None
    models = (session.clock_model for session in reversed(time.sessions))
    model = next(filter(None, models), None) if is_same_code(code, known.code) else None
    if model is not None:
        model = replace(model, reference_mhz=time.reference_mhz or model.reference_mhz)
    return KnownTime(time.mode, time.source, model)


def other_choice(known: MeasurementBaseline | None, timing: Timing) -> dict[str, str]:
    """Return what autotuners had chosen for the baseline if a time is slower with another choice.

    A name cannot pin several configurations.
    """
    if known is None or (time := known.time) is None or not same_quantity(timing, time):
        return {}
    slower = timing.time_us > (1 + SCREEN_PCT / 100) * time.mean_us
    choices = other_choices(timing, time) if slower else []
    return {one.kernel: one.before for one in choices if all(one.is_only for one in choices)}


def check(call: Call) -> Correctness:
    """Run a call on poisoned memory and compare its output with its reference."""
    from pytest_gpuperf.measure import correctness

    reference = call.reference
    assert reference is not None
    return correctness.check(call.fn, call.args, dict(call.kwargs), **asdict(reference))


def fuzz(call: FuzzCall, progress: Callable[[str], None]) -> Fuzzing:
    """Search on the current device for a case in which the function differs from its reference."""
    import torch

    fuzzing = instrument("fuzz")
    with random_numbers_kept():
        found: Fuzzing = fuzzing.fuzz(call, torch.device("cuda", torch.cuda.current_device()), progress)
        return found


@contextmanager
def restored(call: Call) -> Iterator[StateSnapshot]:
    """Restore what the calls of the block write, and random numbers."""
    from pytest_gpuperf.measure.reachable_tensors import StateSnapshot

    with random_numbers_kept():
        before = StateSnapshot(call)
        try:
            yield before
        finally:
            before.restore()


def trace_file_name(nodeid: str, label: str) -> str:
    """Return a readable name that no other call has: `test_gemm-torch-1a2b3c4d.json.gz`."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", f"{nodeid.rpartition('::')[2]}-{label}")[:60].strip("-")
    return f"{readable}-{zlib.crc32(f'{nodeid}#{label}'.encode()):08x}.json.gz"
