"""Reference and solution timed in turn, on the CPU with made-up times."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial.problem import Problem
from pytest_gpuperf.features.trial.round_timing import AlternatingRounds, RefusedTimeError
from pytest_gpuperf.measure.correctness.comparison import Tolerance
from trial_on_cpu import Block

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Doubling(Problem):
    """A problem: twice its input."""

    solve: Callable[..., Any]
    seeds: list[int] = field(default_factory=list)

    def arguments(self, seed: int) -> tuple[Any, ...]:
        self.seeds.append(seed)
        return (torch.randn(9, generator=torch.Generator().manual_seed(seed)),)

    def reference(self, *args: Any) -> Any:
        return args[0] * 2

    def solution(self, *args: Any) -> Any:
        return self.solve(args[0])

    def tolerance(self, output: Any) -> float:
        return 0.0


@dataclass
class Preparer:
    """Times calls: those of the reference take 20 µs, those of the solution 10 µs."""

    captured: tuple[bool, bool] = (True, True)
    asked: list[str] = field(default_factory=list)

    def prepare(self, fn: Callable[[], Any], mode: str) -> Any:
        of_solution = getattr(fn, "fn").__name__ == "solution"  # noqa: B009
        self.asked.append(mode)
        hot = mode in ("auto", "hot") and self.captured[of_solution]
        if mode == "hot" and not hot:
            raise GpuperfError("it cannot be captured")
        return Prepared(fn, "hot" if hot else "kernels", 10.0 if of_solution else 20.0)


@dataclass
class Prepared:
    fn: Callable[[], Any]
    mode: str
    time_us: float

    def __post_init__(self) -> None:
        self.fn()

    def block(self, *, recorded: bool = False) -> Block:
        assert not recorded
        self.fn()
        self.fn()
        return Block(self.time_us, 0.0)


def rounds(problem: Doubling, preparer: Preparer | None = None, mode: str = "auto") -> AlternatingRounds:
    timer: Any = preparer or Preparer()
    return AlternatingRounds(problem, timer, mode, 0.0, Tolerance(0.0, 0.0))


def test_each_round_has_its_own_inputs_and_order() -> None:
    problem = Doubling(lambda x: x + x)
    found = rounds(problem).run([1, 2])
    assert len(set(problem.seeds)) == 4
    assert found.in_turn.new_first == (False, True)
    assert found.reference_rounds_us == pytest.approx((20.0, 20.0))
    assert found.solution_rounds_us == pytest.approx((10.0, 10.0))


def test_output_of_inference_mode_is_checked() -> None:
    rounds(Doubling(torch.inference_mode()(lambda x: x + x))).run([1])


def test_kept_output_is_noticed() -> None:
    kept: dict[int, torch.Tensor] = {}
    problem = Doubling(lambda x: kept.setdefault(x.data_ptr(), x * 2))
    with pytest.raises(RefusedTimeError, match="output 0 of the timed calls differs from the reference"):
        rounds(problem).run([1])


@dataclass
class InPlace(Doubling):
    """Twice its input, in an output that is handed over."""

    def arguments(self, seed: int) -> tuple[Any, ...]:
        (x,) = super().arguments(seed)
        return (x, torch.zeros_like(x))

    def reference(self, *args: Any) -> Any:
        return args[1].copy_(2 * args[0])

    def solution(self, *args: Any) -> Any:
        return self.solve(*args)


@pytest.mark.parametrize("side", ["reference", "solution"])
def test_inputs_that_a_side_changes_are_restored_for_both(side: str) -> None:
    seen: dict[str, set[tuple[float, ...]]] = {"reference": set(), "solution": set()}

    class Sorting(Doubling):
        def _sort(self, of: str, x: torch.Tensor) -> torch.Tensor:
            seen[of].add(tuple(x.tolist()))
            found = x.sort().values
            return x.copy_(found) if of == side else found

        def reference(self, *args: Any) -> Any:
            return self._sort("reference", *args)

        def solution(self, *args: Any) -> Any:
            return self._sort("solution", *args)

    found = rounds(Sorting(lambda x: x)).run([1])
    assert found.restored_bytes == 9 * 4
    # Values of the round and of the check; zeros and a sorted output only while the roles are found.
    assert len(seen["solution"]) == 2
    assert len(seen["reference"]) == 4


def test_output_that_is_handed_over_is_not_restored() -> None:
    found = rounds(InPlace(lambda x, out: torch.mul(x, 2, out=out))).run([1])
    assert found.restored_bytes == 0


def test_solution_that_adds_to_its_output_is_wrong() -> None:
    with pytest.raises(RefusedTimeError, match="output 0 "):
        rounds(InPlace(lambda x, out: out.add_(x * 2))).run([1])


def test_inputs_changed_only_while_timed_are_noticed() -> None:
    calls = iter(range(10**9))

    def solve(x: torch.Tensor) -> torch.Tensor:
        output = x * 2
        if next(calls) > 3:
            x.copy_(x.sort().values)
        return output

    with pytest.raises(RefusedTimeError, match="the timed calls changed inputs"):
        rounds(Doubling(solve)).run([1])


@pytest.mark.parametrize("kept", [False, True])
def test_own_check_of_the_problem_decides_on_timed_calls(kept: bool) -> None:
    class Signless(Doubling):
        judges = True

        def objection(self, args: tuple[Any, ...], output: Any) -> str:
            return "" if torch.equal(output.abs(), 2 * args[0].abs()) else "neither of both signs"

    outputs: dict[int, torch.Tensor] = {}
    problem = Signless(lambda x: outputs.setdefault(kept and x.data_ptr(), -2 * x) if kept else -2 * x)
    if not kept:
        rounds(problem).run([1])
        return
    with pytest.raises(RefusedTimeError, match="outputs of the timed calls: neither of both signs"):
        rounds(problem).run([1])


@dataclass
class Scaled:
    x: torch.Tensor
    factor: int


@pytest.mark.parametrize("wrap", [Scaled, lambda x, factor: SimpleNamespace(x=x, factor=factor)])
def test_arguments_in_objects_accuse_nobody(wrap: Any) -> None:
    class Wrapped(Doubling):
        def arguments(self, seed: int) -> tuple[Any, ...]:
            return (wrap(*super().arguments(seed), seed),)

        def reference(self, *args: Any) -> Any:
            return args[0].x * args[0].factor

    def solve(one: Any) -> Any:
        return one.factor * one.x

    rounds(Wrapped(solve)).run([1])


def test_shapes_that_depend_on_the_seed_accuse_nobody() -> None:
    class Growing(Doubling):
        def arguments(self, seed: int) -> tuple[Any, ...]:
            return (torch.arange(seed % 7 + 1.0), seed)

    rounds(Growing(lambda x: x + x)).run([1, 2])


def test_expanded_argument_accuses_nobody() -> None:
    class Expanded(Doubling):
        def arguments(self, seed: int) -> tuple[Any, ...]:
            return (super().arguments(seed)[0][:1].expand(9),)

    rounds(Expanded(lambda x: x + x)).run([1])


def test_output_that_is_no_longer_written_is_noticed() -> None:
    out, calls = torch.empty(9), iter(range(10**9))

    def solve(x: torch.Tensor) -> torch.Tensor:
        return torch.mul(x, 2, out=out) if next(calls) < 5 else out

    with pytest.raises(RefusedTimeError):
        rounds(Doubling(solve)).run([1])


@pytest.mark.parametrize("mode", ["auto", "hot"])
@pytest.mark.parametrize("captured", [(True, False), (False, True), (False, False)])
def test_side_that_cannot_be_captured_is_timed_by_kernels(captured: tuple[bool, bool], mode: str) -> None:
    preparer = Preparer(captured)
    found = rounds(Doubling(lambda x: x + x), preparer, mode).run([1, 2])
    assert found.in_turn.mode == "kernels"
    both = captured == (False, False)
    assert preparer.asked[-2:] == ["auto" if both and mode == "auto" else "kernels"] * 2
