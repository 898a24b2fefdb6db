"""Random data of tests: the same in every session."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pytest_gpuperf.session.seeds import seed_of

DRAWS = """
import random, pytest

@pytest.fixture(scope="module")
def shared():
    return random.random()

@pytest.fixture
def data():
    return random.random()

def note(*numbers):
    with open("drawn", "a") as file:
        print(*numbers, file=file)

def test_a(gpuperf, shared, data):
    note("a", shared, data, random.random())

def test_b(gpuperf, shared, data):
    note("b", shared, data, random.random())

def test_plain(data):
    note("plain", data)

def test_seed(gpuperf):
    note("seed", gpuperf.seed)
"""

pytestmark = pytest.mark.usefixtures("replay", "_seed_restored")


@pytest.fixture(autouse=True)
def _suite(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=DRAWS)


def drawn(pytester: pytest.Pytester, *arguments: str) -> dict[str, list[str]]:
    """Run the tests and return the numbers that each has drawn."""
    path = Path("drawn")
    path.unlink(missing_ok=True)
    pytester.runpytest("--gpuperf", *arguments)
    return {line.split()[0]: line.split()[1:] for line in path.read_text().splitlines()}


def test_data_are_the_same_in_every_session_and_selection(pytester: pytest.Pytester) -> None:
    first, second, alone = drawn(pytester), drawn(pytester), drawn(pytester, "-k", "test_b")
    assert first["a"] == second["a"]
    assert first["b"] == alone["b"]
    assert first["a"][1:] != first["b"][1:]


def test_other_tests_are_not_seeded(pytester: pytest.Pytester) -> None:
    random.seed(1)
    assert drawn(pytester, "-k", "plain") != drawn(pytester, "-k", "plain")


def test_tests_after_one_that_measures_go_on_as_without_it(pytester: pytest.Pytester) -> None:
    random.seed(1)
    first = random.random()
    random.seed(1)
    numbers = drawn(pytester)
    assert numbers["plain"] == [str(first)]
    assert numbers["seed"] == [str(seed_of("test_k.py::test_seed"))]


COMPILES = """
import pytest, torch

inputs_of = []

def keep(graph, inputs):
    # A dynamic size is an input of its own.
    inputs_of.append(len(inputs))
    return graph

@torch.compile(backend=keep)
def double(x):
    return x * 2

@pytest.fixture(scope="module")
def compiled():
    double(torch.ones(7))
    return double

@pytest.mark.parametrize("n", [3, 5])
def test_n(gpuperf, compiled, n):
    gpuperf._keep("main")
    compiled(torch.ones(n))
    assert inputs_of[-1] == 1, inputs_of
"""


@pytest.mark.usefixtures("forked_runs")
def test_shape_of_an_earlier_test_or_fixture_makes_none_dynamic(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=COMPILES)
    pytester.runpytest_subprocess("--gpuperf").assert_outcomes(passed=2)


RANDOMLY = """
import random, pytest

def pytest_addoption(parser):
    parser.addoption("--randomly-seed", dest="randomly_seed", type=int)

def pytest_runtest_setup(item):
    random.seed(item.config.getoption("randomly_seed") - 1)

def pytest_runtest_call(item):
    random.seed(item.config.getoption("randomly_seed"))
"""


def test_pytest_randomly_does_not_change_data(pytester: pytest.Pytester) -> None:
    """Use its hooks: it seeds before the fixtures and before the test, by a seed that it draws."""
    pytester.makepyfile(like_randomly=RANDOMLY)
    pytester.syspathinsert()
    one, other = (drawn(pytester, "-p", "like_randomly", f"--randomly-seed={seed}") for seed in (1, 2))
    assert (one["a"], one["b"]) == (other["a"], other["b"])
    assert one["plain"] != other["plain"]
