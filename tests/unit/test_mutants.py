"""Operators of the mutation tests: one mutant of each kind, and code that has none."""

from __future__ import annotations

import ast
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from mutants.__main__ import ROOT, cropped, equivalents
from mutants.operators import count, mutant
from mutants.reach import Reach, TestFile
from mutants.trial import replace_code


def mutants(code: str) -> list[str]:
    source = dedent(code)
    found = [mutant(source, number) for number in range(count(source))]
    for one in found:
        ast.parse(one.source)
        assert one.before != one.after
    return [one.after for one in found]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("a < b", ["a <= b"]),
        ("a <= b", ["a < b"]),
        ("a > b >= c", ["a >= b >= c", "a > b > c"]),
        ("a == b", ["a != b"]),
        ("a != b", ["a == b"]),
        ("a is b", ["a is not b"]),
        ("a in b", ["a not in b"]),
        ("a + b", ["a - b"]),
        ("a * b", ["a / b"]),
        ("a // b", ["a * b"]),
        ("a % b", ["a * b"]),
        ("a ** b", ["a * b"]),
        ("def f():\n    a += b", ["pass", "a -= b"]),
        ("a and b", ["a or b"]),
        ("a or b", ["a and b"]),
        ("x = True", ["x = False"]),
        ("x = 3", ["x = 4"]),
        ("x = 2.0", ["x = 2.2"]),
        ("x = 0.0", ["x = 0.1"]),
        ("def f():\n    g(x)", ["pass"]),
        ("g(x)", ["pass"]),
        ("def f():\n    raise E", ["pass"]),
        ("y = a if b else c", ["y = a if not b else c"]),
        ("y = [a for a in b if a]", ["y = [a for a in b if not a]"]),
        ("if a:\n    b", ["if not a: b"]),
        ("def f():\n    return a", ["return None"]),
        ("for a in b:\n    continue", ["pass"]),
        ("while a:\n    break", ["while not a: break", "pass"]),
    ],
)
def test_each_operator_has_its_mutants(code: str, found: list[str]) -> None:
    assert mutants(code) == found


@pytest.mark.parametrize(
    "code",
    [
        "x = 'text'",
        "'''A docstring of 3 lines.'''",
        "x: Literal[3]",
        "def f(a: Annotated[int, 3]) -> Literal[4]: ...",
        "@decorated(3)\ndef f(): ...",
        "class A(Base, frozen=True): ...",
        "if TYPE_CHECKING:\n    x = 3",
        "def f():\n    return None",
        "import a",
    ],
)
def test_texts_types_and_decorators_have_no_mutants(code: str) -> None:
    assert mutants(code) == []


def test_mutant_changes_one_place_and_knows_its_line() -> None:
    one = mutant("a = 1\n\nif a:\n    b = 2\n", 2)
    assert (one.line, one.before, one.after) == (4, "b = 2", "b = 3")
    assert one.source == "a = 1\nif a:\n    b = 3"


def test_mutant_knows_if_its_line_runs_at_import() -> None:
    code = "a = 1\n\ndef f(x=2):\n    return [\n        3]\n"
    assert [mutant(code, number).at_import for number in range(count(code))] == [True, True, False, False]


def test_name_of_a_mutant_shows_the_place_that_differs() -> None:
    assert cropped("a < b", "a <= b") == "a < b -> a <= b"
    assert cropped("x" * 50 + "1", "x" * 50 + "2", width=6) == "…xxx1 -> …xxx2"


def reach(**lines: dict[str, dict[int, list[str]]]) -> Reach:
    """Return tests of 1 s in files of tests/unit, by file and line."""
    files = {}
    for name, reached in lines.items():
        names = sorted({test for of_file in reached.values() for tests in of_file.values() for test in tests})
        numbers = {
            file: {line: [names.index(test) for test in tests] for line, tests in of_file.items()}
            for file, of_file in reached.items()
        }
        files[f"tests/unit/{name}"] = TestFile(
            {}, [f"tests/unit/{name}::{test}" for test in names], [1.0] * len(names), numbers
        )
    return Reach(files)


def stages(reach: Reach, line: int, *, at_import: bool = False) -> list[list[str]]:
    found = reach.stages("p/a.py", line, at_import=at_import)
    return [[test.removeprefix("tests/unit/") for test in stage] for stage in found]


def test_file_that_reaches_little_else_comes_first() -> None:
    known = reach(broad={"p/a.py": {2: ["x"]}, "q/b.py": {1: ["x"]}}, narrow={"p/a.py": {2: ["y"], 3: ["z"]}})
    assert stages(known, 2) == [["narrow::y"], ["broad::x"]]


def test_test_that_noticed_a_mutant_of_the_file_comes_first() -> None:
    known = reach(broad={"p/a.py": {2: ["v", "x"]}, "q/b.py": {1: ["x"]}}, narrow={"p/a.py": {2: ["y"]}})
    known.remember("p/a.py", "tests/unit/broad::x")
    assert stages(known, 2) == [["broad::x", "broad::v"], ["narrow::y"]]


def test_tests_of_a_mutant_take_a_third_of_a_minute_at_most() -> None:
    known = reach(many={"p/a.py": {2: [f"t{number}" for number in range(30)]}})
    assert len(stages(known, 2)[0]) == 19


def test_line_that_runs_at_import_belongs_to_the_tests_of_its_folder() -> None:
    known = reach(own={"p/a.py": {2: ["x"]}}, near={"p/b.py": {1: ["y"]}}, far={"q/c.py": {1: ["z"]}})
    assert stages(known, 1, at_import=True) == [["own::x"], ["near::y"]]


def test_line_that_no_test_runs_is_not_reached() -> None:
    known = reach(own={"p/a.py": {2: ["x"]}})
    assert [known.reaches("p/a.py", line) for line in (1, 2)] == [False, True]


FUNCTIONS = """
class Ratio:
    @property
    def pct(self):
        return 100 * self.value

def ratio(a, b):
    return a / b

def scaled(factor):
    return lambda value: value * factor

double, both = scaled(2), [lambda x: x + 1, lambda x: x + 2]
"""


def test_functions_of_a_process_get_the_code_of_a_mutant() -> None:
    module: dict[str, Any] = {}
    exec(compile(FUNCTIONS, "ratio.py", "exec"), module)
    ratio, double, pct = module["ratio"], module["double"], module["Ratio"].pct.fget
    functions = [ratio, double, pct, module["scaled"], *module["both"]]
    changed = FUNCTIONS.replace("a / b", "a * b").replace("100", "101").replace("value *", "value +")
    replace_code(functions, "ratio.py", FUNCTIONS, changed)
    assert (ratio(6, 2), pct(SimpleNamespace(value=1)), double(5)) == (12, 101, 7)
    # Two on a line cannot be told apart.
    assert [one(5) for one in module["both"]] == [6, 7]


def test_mutant_with_other_functions_needs_a_fresh_process() -> None:
    with pytest.raises(ValueError, match="shorter"):
        replace_code([], "ratio.py", FUNCTIONS, "x = 1")


def test_equivalent_mutants_have_files_and_reasons() -> None:
    for name, reason in equivalents().items():
        assert reason
        assert " -> " in name
        assert (ROOT / name.partition(":")[0]).is_file()
