"""Operators of the mutation tests: one mutant of each kind, and code that has none."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from mutants.__main__ import ROOT, cropped, equivalents
from mutants.operators import count, mutant
from mutants.reach import Reach


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


def test_name_of_a_mutant_shows_the_place_that_differs() -> None:
    assert cropped("a < b", "a <= b") == "a < b -> a <= b"
    assert cropped("x" * 50 + "1", "x" * 50 + "2", width=6) == "…xxx1 -> …xxx2"


TESTS = ["tests/unit/x", "tests/unit/y", "tests/plugin/z"]


def test_line_that_runs_at_import_belongs_to_every_test_of_its_file() -> None:
    reach = Reach({"p/a.py": {1: [], 2: [0], 3: [1, 2]}, "p/b.py": {1: []}}, TESTS, [2.0, 1.0, 90.0])
    assert reach.tests("p/a.py", 2) == (["tests/unit/x"], [])
    # The tests of a mutant take at most a minute.
    assert reach.tests("p/a.py", 3) == (["tests/unit/y"], [])
    assert reach.tests("p/a.py", 1) == (["tests/unit/y", "tests/unit/x"], [])


def test_file_that_runs_only_at_import_has_the_tests_of_its_folder() -> None:
    reach = Reach({"p/a.py": {1: [], 2: [0]}, "p/b.py": {1: []}, "q/c.py": {1: [1]}}, TESTS, [2.0, 1.0, 3.0])
    assert reach.tests("p/b.py", 1) == (["tests/unit/x"], [])


def test_equivalent_mutants_have_files_and_reasons() -> None:
    for name, reason in equivalents().items():
        assert reason
        assert " -> " in name
        assert (ROOT / name.partition(":")[0]).is_file()
