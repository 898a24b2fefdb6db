"""The callables of a problem and its solution, on the GPU: one class for each form."""

from __future__ import annotations

import inspect
import math
import random
import sys
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial.file_import import Unchanged, load
from pytest_gpuperf.features.trial.problem_forms import FORMS
from pytest_gpuperf.measure.correctness.call_tensors import mapped, named_tensors, values_in
from pytest_gpuperf.measure.correctness.comparison import Tolerance, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    from pytest_gpuperf.features.trial.record import TrialCase, TrialPlan

KERNELBENCH_TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-4}
"""Absolute and relative tolerance by type of the output, as in KernelBench's `eval.py`."""
KERNELBENCH_LOW_PRECISION = 1e-2
GPU_MODE_TOLERANCE = 2e-2
"""The problem's own `check_implementation` decides; this is the largest tolerance among its problems."""


class Problem(ABC):
    """A problem with its solution."""

    mutates = False
    """True if the solution may write to its arguments."""
    judges = False
    """True if the problem has a check of its own, which decides if an output is right."""

    @abstractmethod
    def arguments(self, seed: int) -> tuple[Any, ...]:
        """Make new arguments.

        Raises:
            GpuperfError: The problem cannot make them.
        """

    @abstractmethod
    def reference(self, *args: Any) -> Any:
        """Call the reference."""

    @abstractmethod
    def solution(self, *args: Any) -> Any:
        """Call the solution."""

    @abstractmethod
    def tolerance(self, output: Any) -> float:
        """Return the tolerance of the problem's form for an output of the reference."""

    def objection(self, _args: tuple[Any, ...], _output: Any) -> str:
        """Return why the problem's own check refuses an output for these arguments, which stay as they are.

        Returns:
            Empty if it does not, or if there is no such check.
        """
        return ""


class Files:
    """Problem and solution, imported once for all cases.

    Args:
        plan: Names the files.

    Raises:
        GpuperfError: The problem cannot be imported, or the solution lacks a module.
    """

    def __init__(self, plan: TrialPlan) -> None:
        self._plan = plan
        path, needed = Path(plan.problem), FORMS[plan.form]
        # GPU MODE has helper modules in both.
        folders = path.parents[:2]
        sys.path[:0] = map(str, folders)
        self.problem = load(path, "gpuperf_problem", needed.problem)
        self.unchanged = Unchanged(self.problem, folders)
        self.solution = load(Path(plan.solution), "gpuperf_solution", [needed.solution], tried=True)

    def open(self, case: TrialCase, device: torch.device) -> Problem:
        """Make the callables of a case.

        Raises:
            GpuperfError: The reference cannot be made.
        """
        if self._plan.form == "kernelbench":
            return KernelBench(self.problem, self.solution, device, self._plan.seed)
        return GpuMode(self.problem, self.solution, case.arguments)


class KernelBench(Problem):
    """`Model` against `ModelNew`, made from the same seed and with the same weights."""

    def __init__(self, problem: ModuleType, solution: ModuleType, device: torch.device, seed: int) -> None:
        self._device = device
        self._make = problem.get_inputs
        init = _moved(_made(problem.get_init_inputs, seed, device, "get_init_inputs"), device)
        self._model = _moved(_made(lambda: problem.Model(*init), seed, device, "Model"), device)
        self._new = _moved(_made(lambda: solution.ModelNew(*init), seed, device), device)
        share_weights(self._model, self._new)

    def arguments(self, seed: int) -> tuple[Any, ...]:
        """Call `get_inputs`, on the GPU if it can."""
        made = _made(self._make, seed, self._device, "get_inputs")
        return tuple(_moved(list(made) if isinstance(made, (list, tuple)) else [made], self._device))

    def reference(self, *args: Any) -> Any:
        """Call `Model`."""
        with torch.no_grad():
            return self._model(*args)

    def solution(self, *args: Any) -> Any:
        """Call `ModelNew`."""
        with torch.no_grad():
            return self._new(*args)

    def tolerance(self, output: Any) -> float:
        """Return KernelBench's tolerance for the widest type."""
        kinds = {tensor.dtype for tensor in tensors_in(output)}
        return min((KERNELBENCH_TOLERANCES.get(kind, KERNELBENCH_LOW_PRECISION) for kind in kinds), default=0)


class GpuMode(Problem):
    """`ref_kernel` against `custom_kernel`."""

    mutates = True
    """Many problems hand the output over."""

    def __init__(self, problem: ModuleType, solution: ModuleType, arguments: Mapping[str, Any]) -> None:
        self._problem = problem
        self._check = getattr(problem, "check_implementation", lambda *_: None)
        self.judges = hasattr(problem, "check_implementation")
        self._custom_kernel: Callable[[Any], Any] = solution.custom_kernel
        self._arguments = arguments
        self._takes_seed = "seed" in inspect.signature(problem.generate_input).parameters

    def arguments(self, seed: int) -> tuple[Any, ...]:
        """Call `generate_input`."""
        given = {**self._arguments, "seed": seed} if self._takes_seed else self._arguments
        with _seeded(seed):
            try:
                return (self._problem.generate_input(**given),)
            except Exception as error:
                raise _broken("generate_input", error) from error

    def reference(self, *args: Any) -> Any:
        """Call `ref_kernel`."""
        return self._problem.ref_kernel(*args)

    def solution(self, *args: Any) -> Any:
        """Call `custom_kernel`."""
        return self._custom_kernel(*args)

    def objection(self, args: tuple[Any, ...], output: Any) -> str:
        """Ask `check_implementation`."""
        try:
            return _objection_in(self._check(*cloned(args), output))
        except Exception as error:
            return f"check_implementation raised {type(error).__name__}: {error}"

    def tolerance(self, output: Any) -> float:
        """Return a tolerance as wide as the widest of the problems, 0 for whole numbers."""
        floats = any(tensor.is_floating_point() for tensor in tensors_in(output))
        return GPU_MODE_TOLERANCE if floats else 0.0


def _objection_in(answer: Any) -> str:
    """Read the answer of `check_implementation`: a reason, or whether the output is right, with a reason."""
    good, *why = answer if isinstance(answer, (tuple, list)) and answer else (answer,)
    if good is None or (isinstance(good, str) and not why):
        return f"check_implementation: {good}" if good else ""
    return "" if good else f"check_implementation: {', '.join(map(str, why)) or good}"


def absolute_tolerance(tolerance: float, output: Any) -> float:
    """Scale a tolerance to an output of the reference whose values are small.

    A softmax over 400,000 columns is zero everywhere within 1e-4.
    """
    sizes = [
        float(torch.linalg.vector_norm(tensor.double())) / math.sqrt(max(tensor.numel(), 1))
        for tensor in tensors_in(output)
        if tensor.is_floating_point()
    ]
    known = [size for size in sizes if 0 < size < float("inf")]
    return tolerance * min([1.0, *known])


def why_unusable(output: Any, again: Any, rtol: float, atol: float) -> str:
    """Return why no solution can agree with a reference; empty if one can.

    Args:
        output: Output of the reference; None if it writes to its arguments.
        again: Its output for the same inputs.
        rtol: Relative tolerance between the two.
        atol: Absolute tolerance.
    """
    if output is None:
        return ""
    tensors, others = (dict(named_tensors(value, "output")) for value in (output, again))
    if not tensors:
        return f"returns a {type(output).__name__} without tensors"
    for name, tensor in tensors.items():
        other = others.get(name)
        if other is None or not compare(other, tensor, Tolerance(rtol, atol, equal_nan=True)).passed:
            return f"gives another {name} for the same inputs"
        if not compare(tensor, tensor, Tolerance(rtol, atol)).passed:
            return f"gives NaN in {name}"
    return ""


def share_weights(model: Any, new: Any) -> None:
    """Copy the weights of the reference that the solution has under the same name and with the same shape."""
    if not (isinstance(model, torch.nn.Module) and isinstance(new, torch.nn.Module)):
        return
    known = new.state_dict()
    new.load_state_dict(
        {
            name: value
            for name, value in model.state_dict().items()
            if name in known and known[name].shape == value.shape
        },
        strict=False,
    )


def cloned(tree: Any) -> Any:
    """Copy the tensors in nested tuples, lists, dicts and dataclasses, at other addresses."""
    return mapped(lambda value: value.clone() if isinstance(value, torch.Tensor) else value, tree)


def fits(tree: Any, other: Any) -> bool:
    """Return True if two trees have tensors of the same shapes and types."""
    one, two = ([(tensor.shape, tensor.dtype) for tensor in tensors_in(which)] for which in (tree, other))
    return one == two


def refill(tree: Any, other: Any) -> None:
    """Overwrite the tensors of one tree with the values of another one that fits."""
    with torch.no_grad():
        for tensor, value in zip(tensors_in(tree), tensors_in(other), strict=True):
            for at, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
                if size > 1 and not stride:  # one element in memory
                    tensor, value = tensor.narrow(at, 0, 1), value.narrow(at, 0, 1)
            tensor.copy_(value)


def tensors_in(tree: Any) -> list[torch.Tensor]:
    """Return the tensors in nested tuples, lists, dicts and dataclasses."""
    return [value for value in values_in(tree) if isinstance(value, torch.Tensor)]


def _moved(tree: Any, device: torch.device) -> Any:
    kinds = torch.Tensor, torch.nn.Module
    return mapped(lambda value: value.to(device) if isinstance(value, kinds) else value, tree)


def _made(make: Callable[[], Any], seed: int, device: torch.device, what: str = "") -> Any:
    """Call a function with the GPU as the default device, or without if it refuses.

    Filling gigabytes by the CPU takes longer than all measurements.

    Args:
        make: The function.
        seed: Seed of the random numbers.
        device: The GPU.
        what: Name of a function of the problem; empty for one of the solution, whose exceptions are results.

    Raises:
        GpuperfError: A function of the problem raises.
    """
    try:
        with _seeded(seed), torch.device(device):
            return make()
    except Exception:
        try:
            with _seeded(seed):
                return make()
        except Exception as error:
            if not what:
                raise
            raise _broken(what, error) from error


def _broken(what: str, error: Exception) -> GpuperfError:
    text = str(error).strip().partition("\n")[0]
    next_step = "name its arguments: --case size=1024" if "required positional" in text else ""
    return GpuperfError(f"{what} raised {type(error).__name__}: {text}".rstrip(": "), next_step=next_step)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed all generators; a seed that the block sets itself is combined with this one.

    Some problems seed in `get_inputs`: their inputs would be the same each time.
    """
    set_seed = torch.manual_seed

    def combined(own: int) -> torch.Generator:
        return set_seed((int(own) * 1_000_003 + seed) % 2**63)

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    set_seed(seed)
    vars(torch)["manual_seed"] = combined
    try:
        yield
    finally:
        vars(torch)["manual_seed"] = set_seed
