"""Shapes, layouts and the search for the smallest failing case, on the CPU."""

from __future__ import annotations

import math
from itertools import count
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.fuzz.case import FuzzCase, arguments_of, line_of
from pytest_gpuperf.features.fuzz.fuzz import fuzz
from pytest_gpuperf.features.fuzz.search import Search
from pytest_gpuperf.features.fuzz.shape_signature import parse_signature
from pytest_gpuperf.features.fuzz.space import LARGE, Space
from pytest_gpuperf.records.call import LAYOUTS, FuzzCall, Reference

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gpuperf.records import Fuzzing

CPU = torch.device("cpu")
TYPES = (torch.float32, torch.int32)


def _space(shapes: str, dtypes: tuple[torch.dtype, ...] = TYPES, **sizes: Any) -> Space:
    return Space(shapes, parse_signature(shapes, sizes), dtypes, LAYOUTS, "cpu")


@pytest.fixture(autouse=True)
def kept(tmp_path: Path) -> Any:
    """Keep failures in a folder of the test."""
    before = hypothesis.settings.get_current_profile_name()
    database = hypothesis.database.DirectoryBasedExampleDatabase(tmp_path)
    hypothesis.settings.register_profile("here", database=database)
    hypothesis.settings.load_profile("here")
    yield
    hypothesis.settings.load_profile(before)


def _fuzz(fn: Callable[..., Any], expected: Callable[..., Any], shapes: str, **more: Any) -> Fuzzing:
    options: dict[str, Any] = {
        "sizes": {},
        "dtypes": TYPES,
        "layouts": LAYOUTS,
        "make": None,
        "refuses": (),
        "seconds": 3.0,
        "progress": lambda _: None,
        **more,
    }
    progress = options.pop("progress")
    call = FuzzCall("t.py::test", "main", fn, reference=Reference(expected), shapes=shapes, **options)
    return fuzz(call, CPU, progress)


@pytest.mark.parametrize(
    ("text", "sizes", "leading", "shapes"),
    [
        ("(m,k),(k,n)", {"m": 2, "k": 3, "n": 4}, (), ((2, 3), (3, 4))),
        (" ( b , 64 ) ", {"b": 5}, (), ((5, 64),)),
        ("(...,n),(n),()", {"n": 7}, (2, 3), ((2, 3, 7), (7,), ())),
    ],
)
def test_signature_gives_shapes(text: str, sizes: Any, leading: Any, shapes: Any) -> None:
    assert parse_signature(text).shapes(sizes, leading) == shapes


@pytest.mark.parametrize("text", ["", "m,n", "(m", "(m)(n)", "(m,...)", "(m,)", "(m-1)", "(1a)", 5, None])
def test_broken_signature_is_refused(text: Any) -> None:
    with pytest.raises(GpuperfError, match="tensors in brackets"):
        parse_signature(text)


@pytest.mark.parametrize("sizes", [{"k": 1}, {"m": -1}, {"m": []}, {"m": range(0)}, {"m": range(4, 0, -1)}])
def test_wrong_sizes_are_refused(sizes: Any) -> None:
    with pytest.raises(GpuperfError, match="sizes"):
        parse_signature("(m,n)", sizes)


@pytest.mark.parametrize("shapes", ["(...,m,k),(k,64)", "(...,layout,k),(seed,leading,dtype)"])
@given(st.data())
def test_numbers_of_a_case_make_the_same_case(shapes: str, data: st.DataObject) -> None:
    space = _space(shapes, k=[16, 32])

    def draw(_: str, low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    case = space.build(draw)
    numbers = iter(space.nearest(case)[1])
    assert space.build(lambda *_: next(numbers)) == case
    assert next(numbers, None) is None


def test_corpus_has_the_promised_cases() -> None:
    corpus = _space("(m,n)").corpus()
    columns = {case.sizes["n"] for case in corpus}
    assert {0, 1, 127, 128, 129, 509, 1023, 1025, 4097} <= columns
    assert {layout for case in corpus for layout in case.layouts} == set(LAYOUTS)
    assert {case.dtype for case in corpus} == set(TYPES)
    assert len({str(case) for case in corpus}) == len(corpus)


def test_corpus_keeps_to_the_allowed_sizes() -> None:
    for case in _space("(b,d)", b=range(1, 100), d=[64, 128]).corpus():
        assert 1 <= case.sizes["b"] < 100
        assert case.sizes["d"] in (64, 128)


LARGE_SHAPES = ("(n)", "(m,n)", "(m,k),(k,n)", "(b,h,s,64),(b,h,t,64)", "(n,n)", "(k,k,n)")
WITH_LEADING = ("(...)", "(...),(...)", "(...,n)", "(...,m,n),(n)", "(...,64)")


@pytest.mark.parametrize("shapes", [*LARGE_SHAPES, *WITH_LEADING])
def test_large_case_has_just_more_than_two_billion_elements(shapes: str) -> None:
    (case,) = _space(shapes).large()
    shape = parse_signature(shapes).shapes(case.sizes, case.leading)[0]
    assert LARGE < math.prod(shape) < 1.01 * LARGE
    assert shape[-1] <= 46_341 or shapes == "(n)"
    numbers = iter(_space(shapes).nearest(case)[1])
    assert _space(shapes).build(lambda *_: next(numbers)).layouts == case.layouts


def test_large_case_needs_a_dimension_that_may_grow() -> None:
    assert not _space("(n)", n=range(100)).large()
    assert _space("(...,n)", n=range(100)).large()
    assert not _space("(64),()").large()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int8, torch.uint8, torch.bool, torch.float8_e5m2]
)
@pytest.mark.usefixtures("_seed_restored")
def test_pasted_line_makes_the_arguments_of_the_case(layout: str, dtype: torch.dtype) -> None:
    case = FuzzCase("(m,n),(n)", {"m": 3, "n": 5}, dtype, (layout, "contiguous"), seed=7, device="cpu")
    made = arguments_of(case, None).args
    namespace = {"torch": torch, "fn": lambda *args: args}
    seeding, _, called = line_of(case, lambda: None, None).partition("; ")
    exec(seeding, namespace)
    again = eval(called, namespace)
    for tensor, other in zip(made, again, strict=True):
        assert tensor.dtype == dtype
        assert torch.equal(tensor.double(), other.double())
        assert tensor.stride() == other.stride()
        assert tensor.storage_offset() == other.storage_offset()


@pytest.mark.parametrize(
    ("make", "called"),
    [
        (lambda case: (*case.tensors, 3), "fn(*inputs(FuzzCase("),
        (lambda case: {"x": case.tensors[0]}, "fn(**inputs(FuzzCase("),
        (lambda case: case.tensors[0], "fn(inputs(FuzzCase("),
    ],
)
def test_pasted_line_hands_over_what_the_factory_returns(make: Any, called: str) -> None:
    assert (
        called
        in _fuzz(lambda *_, **__: torch.zeros(1), lambda *_, **__: torch.ones(1), "(n)", make=make).line
    )


def _search(shapes: str, fails: Callable[[FuzzCase], bool], seconds: float = 1000.0) -> Search:
    """Search in a space of which each case takes a second."""
    looks = count()
    search = Search(
        _space(shapes),
        lambda case: "wrong" if fails(case) else "",
        "test",
        seconds,
        lambda _: None,
        clock=lambda: next(looks) / 2,
    )
    search.run()
    return search


@pytest.mark.parametrize(
    ("shapes", "fails", "smallest"),
    [
        ("(m,n)", lambda case: case.sizes["n"] > 700 and case.sizes["m"] > 1, "m=2, n=701, float32"),
        ("(m,n)", lambda case: case.layouts == ("transposed",), "m=0, n=0, float32, transposed"),
        ("(n)", lambda case: case.sizes["n"] % 16 and case.dtype == torch.int32, "n=1, int32"),
        ("(m,k),(k,n)", lambda case: case.sizes["k"] in (129, 130), "m=0, k=129, n=0, float32"),
        ("(m,n)", lambda case: case.sizes["n"] > 2, "m=0, n=3, float32"),
        ("(...)", lambda case: len(case.leading) == 2 and 0 not in case.leading, "...=1x1, float32"),
    ],
)
def test_smallest_failing_case_is_found(shapes: str, fails: Any, smallest: str) -> None:
    search = _search(shapes, fails)
    assert str(search.smallest) == smallest
    assert 1 <= search.found_after <= 50


def test_rare_failure_is_found_by_random_cases() -> None:
    search = _search("(n)", lambda case: 5_000 < case.sizes["n"] < 8_000, seconds=5000.0)
    assert search.found_after > len(_space("(n)").corpus())
    assert str(search.smallest) == "n=5001, float32"


def test_kept_failure_comes_first_in_the_next_run() -> None:
    fails = lambda case: case.sizes["n"] > 700  # noqa: E731
    first, second = _search("(n)", fails), _search("(n)", fails)
    assert first.found_after > 1
    assert second.found_after == 1
    assert second.smallest == first.smallest
    assert second.cases < 5


def test_mended_failure_is_forgotten() -> None:
    _search("(n)", lambda case: case.sizes["n"] > 700)
    assert _search("(n)", lambda _: False, seconds=100.0).smallest is None
    assert _search("(n)", lambda case: case.sizes["n"] > 700).found_after > 1


def test_search_ends_with_its_time() -> None:
    assert 98 <= _search("(n)", lambda _: False, seconds=100.0).cases <= 102


def test_slow_shrinking_ends_with_a_smaller_case() -> None:
    search = _search("(n)", lambda case: case.sizes["n"] > 700, seconds=12.0)
    assert search.smallest is not None
    assert search.cases - search.found_after <= 13


def test_function_is_compared_with_its_reference() -> None:
    def wide(x: torch.Tensor) -> torch.Tensor:
        out = x * 2
        if x.shape[0] > 2:
            out[-1] += 1
        return out

    result = _fuzz(wide, lambda x: x * 2, "(m,n)", sizes={"n": range(1, 99)}, seconds=30.0)
    assert result.case == "m=3, n=1, float32"
    assert "to repeat it: torch.manual_seed(0); wide(torch.randn((3, 1), device='cpu'))" in result.failure
    assert _fuzz(torch.neg, torch.neg, "(...)", seconds=0.1).passed


def test_exception_fails_only_if_the_reference_takes_the_case() -> None:
    def picky(x: torch.Tensor) -> torch.Tensor:
        if x.numel() % 2:
            raise ValueError("odd")
        return x

    def no_empty(x: torch.Tensor) -> torch.Tensor:
        if not x.numel():
            raise RuntimeError("empty")
        return x

    assert "it raises ValueError: odd" in _fuzz(picky, torch.clone, "(n)", seconds=0.1).failure
    refusing = _fuzz(picky, torch.clone, "(n)", refuses=ValueError, sizes={"n": [3, 4]}, seconds=1.0)
    assert refusing.passed
    assert refusing.refused > 1
    assert _fuzz(no_empty, no_empty, "(n)", sizes={"n": [0, 1]}, seconds=1.0).refused >= 1


def _refuse(*_: object) -> torch.Tensor:
    raise ValueError("not this one")


@pytest.mark.parametrize(
    ("fn", "expected", "why"),
    [
        (torch.square, lambda _x, _y: None, "the reference raises TypeError: "),
        (_refuse, torch.square, "the callable refuses it: ValueError: not this one"),
    ],
)
def test_search_that_compares_no_case_is_an_error(fn: Any, expected: Any, why: str) -> None:
    with pytest.raises(GpuperfError, match=f"none of .* cases could be compared, the first because {why}"):
        _fuzz(fn, expected, "(n)", sizes={"n": [1, 2]}, refuses=ValueError, seconds=0.1)


@pytest.mark.usefixtures("_seed_restored")
def test_random_numbers_of_the_test_go_on_as_before() -> None:
    torch.manual_seed(3)
    expected = torch.randn(4)
    torch.manual_seed(3)
    shown: list[str] = []
    _fuzz(torch.square, torch.square, "(n)", seconds=0.1, progress=shown.append)
    assert torch.equal(torch.randn(4), expected)
    assert "1 cases, 0 of 0.1 s: n=1, float32" in shown[0]
    assert shown[-1] == ""


@pytest.mark.parametrize(("name", "value"), [("dtypes", "float32"), ("dtypes", ()), ("layouts", ["odd"])])
def test_wrong_types_and_layouts_are_refused(name: str, value: Any) -> None:
    with pytest.raises(GpuperfError, match=name):
        _fuzz(torch.square, torch.square, "(n)", **{name: value})
