"""Run timed calls again on other values in poisoned memory, and compare their outputs with the reference.

Some of the timed calls are run one by one, by the graph or the batch that was timed: first on the present
values, then on other ones, written into the same memory. Before the first run on either, and before each run
of a graph, the memory of the outputs is filled with a pattern. The outputs are compared with the reference of
the check or, without a callable reference, with a call on copies of the arguments at other addresses.
"""

from __future__ import annotations

from contextlib import nullcontext
from statistics import median
from traceback import walk_tb
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import torch
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness.call_tensors import moved, named_tensors
from pytest_gpuperf.measure.correctness.comparison import ReferenceWithCheck, Tolerance, compare, valid_part
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.device.memory import copy, fill, holds, poisoned_memory, same_bits, zero
from pytest_gpuperf.measure.device.originals import finish
from pytest_gpuperf.measure.reachable_tensors import (
    argument_of,
    copies,
    lacks_memory,
    on_gpu,
    refuse_little_memory,
    tensors_of,
)
from pytest_gpuperf.measure.verification.perturbed_inputs import Values, is_expanded
from pytest_gpuperf.records import Verification
from pytest_gpuperf.records.call import Call, Reference
from pytest_gpuperf.records.settlement import is_out_of_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pytest_gpuperf.measure.reachable_tensors import StateSnapshot
    from pytest_gpuperf.measure.verification.verifier import Rerun


PAIRS = 3
LEAST_PAIRS = 2
"""Pairs of times on unseen and seen values."""
MOST_SECONDS = 0.1
"""Wall time of a verification after which it does only what it must."""
SHARE_OF_RERUNS = 0.5
"""Part of that time after which no more calls are run again."""
SLOW_REFERENCE_S = 0.3
"""Wall time of one comparison after which there is no second one."""
REPEATS = 4
"""Further plain calls if one of several was wrong: a callable may leave its work out by chance."""
MOST_UNSEEN = 1.5
"""Largest honest ratio: in the zoo steps of Adam have 1.28 (H200, 96b32c0b), in public data it was 1.22."""
LEAST_EXTRA_US = 2.0
"""Extra time on unseen values that is no noise of events."""


class RefusedError(Exception):
    """There is proof that timed calls did not do their work."""


def is_of_callable(error: Exception) -> bool:
    """Return True for an exception that only the callable can have raised: it tells of no lack of memory."""
    codes = [frame.f_code for frame, _ in walk_tb(error.__traceback__)]
    if isinstance(error, GpuperfError) and Call.__call__.__code__ not in codes:
        return False
    free, total = torch.cuda.mem_get_info() if is_out_of_memory(str(error)) else (1, 1)
    return free > total / 2


class Replay:
    """Runs timed calls again, once.

    Args:
        call: The call; its output is compared with its reference, if it has one.
        before: What it may write.
    """

    def __init__(self, call: Call, before: StateSnapshot) -> None:
        self._call = call
        self._before = before
        self._begin = originals.now()
        self._reference = given = call.reference or Reference(None, mutates=True)
        self._expected = given.expected
        if isinstance(self._expected, ReferenceWithCheck):
            # Other right outputs may differ from it; those of a plain call are the same.
            self._expected = None
        self._tolerance = Tolerance(given.rtol, given.atol, given.equal_nan)
        self._written: Outputs = {}
        self._unwritten: Outputs = {}
        """Marks the elements that a plain call does not write."""
        self._views = False
        self._values: Values | None = None
        self.found = Verification()

    def run(self, reruns: Sequence[Rerun]) -> None:
        """Run the calls on the timed values and on other ones, and compare.

        Raises:
            RefusedError: The output on the timed values is wrong.
            GpuperfError: Their outputs cannot be verified.
        """
        call = self._call
        state, put_back = self._before.begin(), self._before.put_back_gradients
        self._values = values = Values(call.args, call.kwargs, call.factory, call.seed, state, put_back)
        self._written = self._arguments_written()
        write = values.another() if values.changeable else None
        before: list[Outputs] = []
        after: list[Outputs] = []
        size = 0
        for rerun in reruns:
            if before and (self._is_late(SHARE_OF_RERUNS) or lacks_memory(size)):
                break
            try:
                before.append(self._again(rerun, values.restore, poisons=not before))
            except Exception as error:
                if not is_of_callable(error):
                    raise
                self._doubt(
                    f"a call on the values that were timed raises {type(error).__name__} after the timing; "
                    "let every call do the same"
                )
                break
            if write is not None and not self.found.doubts:
                after += self._again_on_others(rerun, write, poisons=not after)
            if not before[0]:
                raise GpuperfError("the callable returns no tensor on the GPU")
            if len(before) == 1:
                # Filling all free memory has taken tens of milliseconds: the next calls have the time.
                self._begin = originals.now()
                size = 2 * sum(one.nbytes for one in before[0].values())
                refuse_little_memory(size)
        self.found = replace(self.found, calls=len(before))
        if not before:
            return
        undecided: GpuperfError | None = None
        started = originals.now()
        try:
            if write is None:
                raise GpuperfError("no argument is a tensor of floating-point values on the GPU")
            if not self.found.doubts:
                self._judge_others(reruns, before, after, write)
        except GpuperfError as error:
            undecided = error
        if undecided is not None or self.found.doubts or originals.now() < started + SLOW_REFERENCE_S:
            self._judge_present(reruns, before)
        if undecided is not None:
            raise undecided
        if not self.found.doubts:
            self._time_unseen(reruns[0], values)

    def end(self) -> None:
        """Restore the arguments."""
        if self._values is not None:
            finish()
            self._values.restore()
            self._values = None

    def _doubt(self, why: str) -> None:
        self.found = replace(self.found, doubts=(*self.found.doubts, why))

    def _is_late(self, share: float = 1.0) -> bool:
        return originals.now() > self._begin + share * MOST_SECONDS

    def _again(self, rerun: Rerun, write: Callable[[], None], *, poisons: bool = True) -> Outputs:
        """Run one call on other values, and copy its outputs.

        Args:
            rerun: The call.
            write: Writes the values.
            poisons: Whether all free memory is filled before, if the place of the outputs is not known.
        """

        def before() -> None:
            write()
            if poisons or not rerun.live:
                self._poison(rerun)

        rerun.run(before)
        found = self._outputs(rerun.value)
        self._views = self._views or self._are_views(found)
        outputs = {name: copy(tensor) for name, tensor in found.items()}
        leave_out(self._unwritten, outputs)
        return outputs

    def _are_views(self, outputs: Outputs) -> bool:
        """Return True if all outputs lie in the memory of arguments that the callable may not write to."""
        own = {one.untyped_storage().data_ptr() for one in self._values_or_fail().tensors.values()}
        own -= {one.untyped_storage().data_ptr() for one in self._written.values()}
        return bool(outputs) and own.issuperset(one.untyped_storage().data_ptr() for one in outputs.values())

    def _again_on_others(self, rerun: Rerun, write: Callable[[], None], *, poisons: bool) -> list[Outputs]:
        """Return the outputs on other values; none, and a doubt, if only the reference takes these values."""
        try:
            return [self._again(rerun, write, poisons=poisons)]
        except Exception as error:
            if not (is_of_callable(error) and callable(self._expected)):
                raise
            write()
            self._refer()  # if it cannot take these values either, its exception says so
            self._doubt(
                f"the callable raises {type(error).__name__} on other values, which its reference takes; if "
                "it takes special values only, give them by inputs="
            )
            return []

    def _poison(self, rerun: Rerun) -> None:
        """Fill all free memory or, for a graph, outputs in its own memory: other memory may hold more."""
        if rerun.live:
            with poisoned_memory(PATTERN, {one.device for one in self._values_or_fail().tensors.values()}):
                return
        for tensor in self._outputs(rerun.value).values() if rerun.value is not None else ():
            is_own = any(start <= tensor.data_ptr() < end for start, end in rerun.memory)
            if is_own and not is_expanded(tensor):
                fill(tensor, PATTERN)

    def _outputs(self, value: object) -> Outputs:
        outputs = dict(self._written) if value is None else dict(named_tensors(value, "output"))
        return {name: one for name, one in outputs.items() if on_gpu(one) and one.numel()}

    def _arguments_written(self) -> Outputs:
        """Return the arguments that hold the outputs of a callable that returns None."""
        tensors = self._values_or_fail().tensors
        mutates = self._reference.mutates
        if mutates is True:
            return tensors
        named = {f"argument {key}" for key in mutates or ()}
        return {name: one for name, one in tensors.items() if argument_of(name) in named}

    def _judge_present(self, reruns: Sequence[Rerun], got: list[Outputs]) -> None:
        """Compare with the reference on the values that the timed calls had."""
        changes = self._reference.mutates not in (False, ())
        if self._expected is None or (changes and not callable(self._expected)):
            return
        restore = self._values_or_fail().restore
        restore()
        target = self._reference_for(got[0]) if callable(self._expected) else matched(self._expected, got[0])
        found = self._wrong_ones(reruns, got, target, restore)
        if found is not None:
            if not all(one.isfinite().all() for one in target.values()):
                raise GpuperfError("the output is no longer finite after the timing")
            raise RefusedError(
                f"the output of a timed call is wrong, on the values that were timed: {found[1]}; expected "
                "the output that was checked; next step: let every call do all of its work"
            )

    def _judge_others(
        self,
        reruns: Sequence[Rerun],
        before: list[Outputs],
        after: list[Outputs],
        write: Callable[[], None],
        *,
        may_roll: bool = True,
    ) -> None:
        """Compare with the reference on other values, or with a plain call on copies.

        If arguments belong together, such as a matrix and its mean, they still do when they are only rolled.
        """
        write()
        refers = callable(self._expected)
        target = self._reference_for(before[0], after[0]) if refers else self._plain_target(write)
        for outputs in (*before, *after):
            leave_out(self._unwritten, outputs)
        self.found = replace(self.found, compared_with="expected" if refers else "call")
        if not wrong(before[0], target, self._tolerance):
            raise GpuperfError("the output is the same for other values")
        found = self._wrong_ones(reruns, after, target, write)
        if found is None:
            missing = sum(int(one.sum()) for one in self._unwritten.values())
            of = sum(one.numel() for one in self._unwritten.values())
            why = f"a plain call does not write {missing} of {of} elements either" if missing else ""
            self.found = replace(self.found, other_values=True, not_verified=why)
        elif stale(before[found[0]], after[found[0]], target, self._tolerance):
            self._doubt(
                "timed calls did not compute their output: on other values in the same memory it holds what "
                "it held before; let every call do all of its work, and keep no outputs"
            )
        elif may_roll and self._values_or_fail().rolls:
            write, at = self._values_or_fail().another(halves=False), found[0]
            after = [self._again(reruns[at], write)]
            self._judge_others([reruns[at]], [before[at]], after, write, may_roll=False)
        else:
            self._doubt(
                f"timed calls are wrong on other values: {found[1]}; let every call do all of its work, and "
                "give values by inputs= if it takes special ones only"
            )

    def _plain_target(self, write: Callable[[], None]) -> Outputs:
        """Return the outputs of a plain call, and note the elements that it does not write.

        Raises:
            GpuperfError: Another call on the same values gives other outputs.
        """
        devices = {tensor.device for tensor in self._values_or_fail().tensors.values()}
        # A rehearsal: it leaves all memory of the call within reach of the poison.
        self._plain_call(write)
        target, other = (self._plain_call(write, poisoned_memory(byte, devices)) for byte in PATTERNS)
        self._unwritten = unwritten(target, other)
        for outputs in (target, other):
            leave_out(self._unwritten, outputs)
        if wrong(other, target, self._tolerance):
            raise GpuperfError("two calls on the same values give different outputs")
        return target

    def _wrong_ones(
        self, reruns: Sequence[Rerun], got: list[Outputs], target: Outputs, write: Callable[[], None]
    ) -> tuple[int, str] | None:
        """Return the place of the first wrong output and what is wrong; None if all are right.

        Raises:
            GpuperfError: There is one, but it may be a matter of chance.
        """
        bad = [(calls, one) for calls in alike(got) if (one := wrong(got[calls[0]], target, self._tolerance))]
        if not bad:
            return None
        (at, *others), first = bad[0]
        repeats = bool(others) or len(bad) > 1
        # By now a plain call could find the target in memory: more of them can only be right.
        for _ in range(0 if repeats else REPEATS if reruns[at].live else 1):
            repeats = repeats or wrong(self._again(reruns[at], write), target, self._tolerance) is not None
        if not (first.clear and repeats):
            raise GpuperfError("the outputs of timed calls differ from the reference by little, or by chance")
        return at, first.text

    def _time_unseen(self, rerun: Rerun, values: Values) -> None:
        """Time calls on unseen values, and on the same ones again."""
        # A callable that keeps outputs may keep them on the GPU.
        values.keep_state()
        unseen: list[float] = []
        seen: list[float] = []
        for at in range(PAIRS + 1):
            if len(unseen) >= LEAST_PAIRS and self._is_late():
                break
            write = values.another()

            def first(write: Callable[[], None] = write) -> None:
                # A call could do its work only if it finds no former output.
                self._poison(rerun)
                write()

            times = rerun.run(first), rerun.run(write)
            if at:  # the first pair wakes the GPU up
                unseen.append(times[0])
                seen.append(times[1])
        ratio = median(unseen) / max(median(seen), 0.1)
        self.found = replace(self.found, unseen_ratio=round(ratio, 3), single_us=round(min(seen), 3))
        if min(unseen) > MOST_UNSEEN * median(seen) and min(unseen) > median(seen) + LEAST_EXTRA_US:
            self._doubt(
                f"a call on values that it has not seen takes {median(unseen):.4g} µs, on the same values "
                f"again {median(seen):.4g} µs; keep no outputs between calls"
            )

    def _refer(self) -> object:
        assert callable(self._expected)
        value = self._expected(*self._call.args, **self._call.kwargs)
        finish(value)
        return self._written if value is None else value

    def _reference_for(self, *outputs: Outputs) -> Outputs:
        """Return copies of the reference's outputs: it may return a gradient, which is restored later."""
        found = matched(self._refer(), *outputs)
        if self._views and not self.found.doubts and not self._are_views(found):
            self._doubt("all outputs are views of arguments, and those of the reference are not")
        return {name: copy(one) for name, one in found.items()}

    def _plain_call(
        self, write: Callable[[], None], memory: AbstractContextManager[None] | None = None
    ) -> Outputs:
        """Call the function on copies at other addresses.

        Args:
            write: Writes the values.
            memory: Fills the memory of its outputs.
        """
        write()
        args, kwargs = copies(self._call.args), copies(dict(self._call.kwargs))
        with memory or nullcontext():
            value = self._call.fn(*args, **kwargs)
            finish(value)
        if value is not None:
            outputs = self._outputs(value)
        else:
            copied = tensors_of(args, kwargs)
            outputs = {name: copied[name] for name in self._written}
        outputs = {name: copy(tensor) for name, tensor in outputs.items()}
        self._values_or_fail().restore()
        return outputs

    def _values_or_fail(self) -> Values:
        assert self._values is not None
        return self._values


Outputs: TypeAlias = "Mapping[str, torch.Tensor]"
"""Outputs of a call by their names in messages."""
PATTERN = 0x5A
"""Fills outputs before a call; not NaN, which a kernel that reads them would spread."""
PATTERNS = (PATTERN, 0xA5)
"""Fill outputs before two plain calls: no value of any type is both."""
LEAST_WRONG = 0.01
"""Share of the elements from which a difference is no matter of rounding and the order of additions."""


class Mismatch(NamedTuple):
    """A difference beyond the tolerance."""

    text: str
    clear: bool
    """True if it is too large for rounding at the limit of the tolerance."""


def wrong(got: Outputs, target: Outputs, tolerance: Tolerance) -> Mismatch | None:
    """Return the first output that differs from the target, None if none does."""
    if got.keys() != target.keys():
        return Mismatch("other tensors are returned", clear=True)
    for name, tensor in got.items():
        # The check has seen that calls write no more.
        result = compare(valid_part(tensor, target[name]), target[name], tolerance, name)
        if not result.passed:
            text = result.failure.partition("\n")[0]
            # Other shapes or types have no count.
            clear = not result.mismatched or result.mismatched >= LEAST_WRONG * result.elements
            return Mismatch(text, clear)
    return None


def matched(reference: object, outputs: Outputs, *others: Outputs) -> Outputs:
    """Map the tensors of a reference to the names of outputs.

    Raises:
        GpuperfError: They are not as many.
    """
    device = next(iter(outputs.values())).device
    named = dict(named_tensors(moved(reference, device), "output"))
    if outputs.keys() <= named.keys():
        # Others may be empty, or lie in the memory of the host.
        asked = set().union(outputs, *others)
        return {name: one for name, one in named.items() if name in asked and one.numel()}
    if len(named) != len(outputs):
        raise GpuperfError("the reference returns another number of tensors than the timed calls")
    return dict(zip(outputs, named.values(), strict=True))


def unwritten(first: Outputs, second: Outputs) -> Outputs:
    """Mark the elements that hold the patterns of their two calls."""
    alike = {name: one for name, one in first.items() if name in second and one.shape == second[name].shape}
    return {name: holds(one, PATTERNS[0]) & holds(second[name], PATTERNS[1]) for name, one in alike.items()}


def leave_out(marked: Outputs, outputs: Outputs) -> None:
    """Make the marked elements of outputs alike, so that they do not count."""
    for name, marks in marked.items():
        if name in outputs and outputs[name].shape == marks.shape:
            zero(outputs[name], marks)


def alike(outputs: Sequence[Outputs]) -> list[list[int]]:
    """Group the positions of outputs that are the same in every bit."""
    groups: list[list[int]] = []
    for at, one in enumerate(outputs):
        for group in groups:
            if _same(one, outputs[group[0]]):
                group.append(at)
                break
        else:
            groups.append([at])
    return groups


def stale(before: Outputs, after: Outputs, target: Outputs, tolerance: Tolerance) -> bool:
    """Return True if most of the wrong elements have their former value, or were not written.

    They also have to be many among those that should have changed. In types of one byte a wrong value is
    often the former one by chance, so there the whole output has to be the former one.
    """
    changed = kept = missed = 0
    for name in after.keys() & before.keys() & target.keys():
        tensor = after[name]
        if not tensor.shape == target[name].shape == before[name].shape:
            continue
        old = same_bits(tensor, before[name]) | holds(tensor, PATTERN)
        moves = ~_close(before[name], target[name], tolerance)
        changed += int(moves.sum())
        missed += int((~_close(tensor, target[name], tolerance)).sum())
        if tensor.dtype.itemsize > 1 or old.all():
            kept += int((moves & old).sum())
    return kept > 0 and kept >= LEAST_WRONG * changed and kept >= missed / 2


def _same(one: Outputs, other: Outputs) -> bool:
    return one.keys() == other.keys() and all(
        tensor.shape == other[name].shape
        and tensor.dtype == other[name].dtype
        and bool(same_bits(tensor, other[name]).all())
        for name, tensor in one.items()
    )


def _close(tensor: torch.Tensor, target: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    rtol, atol = tolerance.between(tensor.dtype, target.dtype)
    wide = torch.complex128 if tensor.is_complex() or target.is_complex() else torch.float64
    return torch.isclose(tensor.to(wide), target.to(wide), rtol=rtol, atol=atol, equal_nan=True)
