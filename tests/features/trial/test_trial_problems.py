"""Problems and their solutions on the CPU: arguments, weights, checks, imports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial.cases import read_task
from pytest_gpuperf.features.trial.problem import Files, absolute_tolerance, cloned, why_unusable
from pytest_gpuperf.features.trial.record import TrialCase
from pytest_gpuperf.measure.device.originals import ReplacedError
from trial_builders import plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.features.trial.problem import Problem

pytestmark = pytest.mark.usefixtures("_seed_restored")

CPU = torch.device("cpu")
MODEL = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(n))
    def forward(self, x):
        return x * self.scale
def get_inputs():
    torch.manual_seed(0)
    return [torch.randn(4)]
def get_init_inputs():
    return [4]
"""
SAME = "import torch\nfrom gpuperf_problem import Model\nclass ModelNew(Model): ...\n"
VECTOR = """
import torch
from helpers import match
def generate_input(size, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=g), torch.empty(size)
def ref_kernel(data):
    data[1][...] = 2 * data[0]
    return data[1]
def check_implementation(data, output):
    return match(output, ref_kernel(data))
"""
HELPERS = "def match(a, b):\n    return bool((a == b).all()), 'not twice'\n"
TWICE = "def custom_kernel(data):\n    data[1].copy_(data[0] * {factor})\n    return data[1]\n"


@pytest.fixture(autouse=True)
def _forget_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before, path = set(sys.modules), sys.path[:]
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.startswith("gpuperf_") or name in ("helpers", "task", "utils"):
            del sys.modules[name]


def files(folder: Path, problem: str, solution: str, **given: Any) -> Files:
    (folder / "problem.py").write_text(problem, encoding="utf-8")
    (folder / "solution.py").write_text(solution, encoding="utf-8")
    (folder / "helpers.py").write_text(HELPERS, encoding="utf-8")
    form = "kernelbench" if "class Model" in problem else "gpu-mode"
    given = {"problem": str(folder / "problem.py"), "solution": str(folder / "solution.py"), **given}
    return Files(plan("", form=form, **given))


def opened(folder: Path, problem: str, solution: str, **arguments: Any) -> Problem:
    return files(folder, problem, solution).open(TrialCase(name="", arguments=arguments), CPU)


def test_inputs_depend_on_the_seed_although_the_problem_seeds(tmp_path: Path) -> None:
    problem = opened(tmp_path, MODEL, SAME)
    (one,), (other,), (again,) = (problem.arguments(seed) for seed in (1, 2, 1))
    assert not torch.equal(one, other)
    assert torch.equal(one, again)


def test_both_models_have_the_same_weights(tmp_path: Path) -> None:
    problem = opened(tmp_path, MODEL, SAME)
    args = problem.arguments(1)
    assert torch.equal(problem.reference(*args), problem.solution(*args))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 1e-2), (torch.float16, 1e-2)]
)
def test_tolerances_of_kernelbench(tmp_path: Path, dtype: torch.dtype, tolerance: float) -> None:
    assert opened(tmp_path, MODEL, SAME).tolerance(torch.zeros(1, dtype=dtype)) == tolerance


@pytest.mark.parametrize(("size", "tolerance"), [(100.0, 1e-4), (1.0, 1e-4), (1e-5, 1e-9), (0.0, 1e-4)])
def test_absolute_tolerance_shrinks_with_small_outputs(size: float, tolerance: float) -> None:
    found = absolute_tolerance(1e-4, (torch.full((9,), size), torch.ones(3, dtype=torch.int64)))
    assert found == pytest.approx(tolerance)


@pytest.mark.parametrize(
    ("answer", "objection"),
    [
        ("''", ""),
        ("'bad'", "bad"),
        ("False", "False"),
        ("torch.tensor(True)", ""),
        ("[False, 'bad']", "bad"),
        ("(False,)", "False"),
    ],
)
def test_own_check_may_return_a_text_or_a_truth(tmp_path: Path, answer: str, objection: str) -> None:
    text = VECTOR.replace("return match(output, ref_kernel(data))", f"return {answer}")
    problem = opened(tmp_path, text, TWICE.format(factor=2), size=5)
    found = problem.objection(problem.arguments(1), torch.zeros(5))
    assert found.removeprefix("check_implementation: ") == objection


def test_error_in_the_inputs_is_explained(tmp_path: Path) -> None:
    problem = opened(tmp_path, VECTOR, TWICE.format(factor=2), size=-1)
    with pytest.raises(GpuperfError, match="generate_input raised RuntimeError: "):
        problem.arguments(1)


def test_missing_import_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(GpuperfError, match=r"solution\.py:2 imports nowhere, which is not there"):
        files(tmp_path, MODEL, "import torch\nimport nowhere\n")


@pytest.mark.parametrize(
    ("solution", "message"),
    [
        ("x = 1\n", r"solution\.py does not define ModelNew; expected a class or a function"),
        ("class ModelNew\n", r"solution\.py cannot be imported: SyntaxError"),
    ],
)
def test_unusable_solution_is_explained(tmp_path: Path, solution: str, message: str) -> None:
    with pytest.raises(GpuperfError, match=message):
        files(tmp_path, MODEL, solution)


def test_error_of_an_import_is_explained(tmp_path: Path) -> None:
    with pytest.raises(GpuperfError, match=r"problem\.py:1 cannot be imported: ZeroDivisionError"):
        files(tmp_path, f"1 / 0{MODEL}", SAME)


@pytest.mark.parametrize("body", ["1 / 0", "class ModelNew:\n    def __init__(self, n): 1 / 0"])
def test_exception_of_the_solution_is_left_as_it_is(tmp_path: Path, body: str) -> None:
    with pytest.raises(ZeroDivisionError):
        opened(tmp_path, MODEL, f"{body}\n")


@pytest.mark.parametrize(
    ("output", "again", "why"),
    [
        (torch.ones(3), torch.ones(3), ""),
        (torch.ones(3), torch.ones(3) * 1.01, "gives another output for the same inputs"),
        ((torch.ones(3), torch.ones(2)), (torch.ones(3), torch.zeros(2)), "gives another output[1] for"),
        (torch.tensor([1.0, torch.nan]), torch.tensor([1.0, torch.nan]), "gives NaN in output"),
        (0.5, 0.5, "returns a float without tensors"),
        (None, None, ""),
    ],
)
def test_reference_that_nobody_can_match_is_named(output: Any, again: Any, why: str) -> None:
    found = why_unusable(output, again, 1e-3, 1e-3)
    assert found.startswith(why)
    assert bool(found) == bool(why)


CHECKED = """
from functools import partial
import torch
import helpers
LIMIT = 1e-3
def close(a, b, *, rtol, limits): return helpers.match(a, b)
def made(**given):
    def check_implementation(data, output): return close(output, data, **given)
    return check_implementation
check_implementation = made(rtol=0.1, limits={"a": 1})
other_check = partial(close, rtol=0.1)
def generate_input(): return torch.randn(3)
def ref_kernel(data): return data
"""
FREE = "def custom_kernel(data): return data\nimport gpuperf_problem as p, helpers\n"


@pytest.mark.parametrize(
    ("attack", "named"),
    [
        ("helpers.match = lambda *_: True", "match"),
        ("helpers.match.__code__ = (lambda a, b: True).__code__", "match.__code__"),
        ("p.close = lambda *_, **__: True", "close"),
        ("p.helpers = p", "helpers"),
        ("p.LIMIT = 1e9", "LIMIT"),
        (
            "p.check_implementation.__closure__[0].cell_contents['rtol'] = 1e9",
            "check_implementation.given.rtol",
        ),
        ("p.other_check.keywords['rtol'] = 1e9", "other_check.rtol"),
    ],
)
def test_replaced_part_of_the_own_check_is_noticed(tmp_path: Path, attack: str, named: str) -> None:
    files(tmp_path, CHECKED, FREE).unchanged.check()
    for name in ("gpuperf_problem", "helpers"):
        del sys.modules[name]
    with pytest.raises(ReplacedError, match=f"the solution has replaced {named} of the problem"):
        files(tmp_path, CHECKED, f"{FREE}{attack}\n").unchanged.check()


PROBLEMS = Path(__file__).parents[3] / "suites" / "problems"


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("prefix_sum/good", True),
        ("prefix_sum/wrong", False),
        ("row_norm/good", True),
        ("row_norm/wrong", False),
    ],
)
def test_example_solution_is_right_or_wrong(tmp_path: Path, name: str, right: bool) -> None:
    pytest.importorskip("yaml")
    path = PROBLEMS / f"{name}.py"
    reference = path.with_name("reference.py")
    task = read_task(reference)
    assert task is not None
    assert task.tests is not None
    case = TrialCase(name="", arguments=task.tests[1])
    trial = plan(case, problem=str(reference), solution=str(path))
    problem = Files(trial).open(case, CPU)
    args = problem.arguments(1)
    assert (problem.objection(args, problem.solution(*cloned(args))) == "") == right
