"""Numbers in ncu's output, and names of functions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.kernel_name import function_name
from pytest_gpuperf.measure.ncu.numbers import ENGLISH, EUROPEAN, marks_of, number_of


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["117.344"], [117344]),  # three digits are thousands: ncu prints two decimals
        (["117,344"], [117344]),
        (["117.344", "12.50"], [117.344, 12.5]),
        (["117.344", "12,50"], [117344, 12.5]),
        (["1.234.567,89"], [1234567.89]),
        (["1,234,567.89"], [1234567.89]),
        (["0.117"], [0.117]),
        (["0,117"], [0.117]),
        (["23 982 976", "866,86"], [23982976, 866.86]),
        (["23\u202f982\u202f976,5"], [23982976.5]),
        (["1'234.5"], [1234.5]),
        (["5706.000000", "1e+06"], [5706, 1e6]),
        (["65.984,000000"], [65984]),
        (["7"], [7]),
    ],
)
def test_other_cells_and_digits_tell_the_locale(cells: list[str], values: list[float]) -> None:
    marks = marks_of(cells)
    assert [number_of(cell, marks) for cell in cells] == values


def test_cells_of_two_locales_are_an_error() -> None:
    with pytest.raises(GpuperfError, match=r"numbers 12\.5 and 12,5 are from different locales"):
        marks_of(["12.5", "12,5"])
    with pytest.raises(GpuperfError, match="different locales"):
        marks_of(["117.344", "117,344"])


@given(st.lists(st.integers(0, 10**12), min_size=1), st.sampled_from([ENGLISH, EUROPEAN]))
def test_printed_numbers_return_in_each_locale(hundredths: list[int], marks: tuple[str, str]) -> None:
    swap = str.maketrans(",.", "".join(marks))
    cells = [f"{number // 100:,}.{number % 100:02}".translate(swap) for number in hundredths]
    found = marks_of(cells)
    assert [number_of(cell, found) for cell in cells] == [number / 100 for number in hundredths]


@pytest.mark.parametrize(
    ("demangled", "name"),
    [
        ("unnamed>::saxpy_kernel(float, const float *, float *, int)", "saxpy_kernel"),
        ("(anonymous namespace)::saxpy<float, 4>(float *)", "saxpy"),
        ("void <unnamed>::detail::saxpy<int>(T1 *)", "saxpy"),
        ("void a::<unnamed>::k<b::<unnamed>::F>(int)", "k"),
        ("T2>::run(int)", "run"),
        ("decltype(auto) g<int>(int)", "g"),
        ("void k<(bool)1, (N>3)>(int)", "k"),
        ("void k<std::plus<int>, f()::operator()(int) const::[lambda(int) (instance 1)]>(int)", "k"),
        ("void k<&Foo::operator->, &Foo::operator<, &Foo::operator>>>(int)", "k"),
        ("void Foo::operator()<int>(int)", "operator()"),
        ("copy_blocked[v1,cw51cXT](Array<long long, 1, C, mutable, aligned>, long long)", "copy_blocked"),
        ("_ZN3foo6kernelEPf", "_ZN3foo6kernelEPf"),
        ("Foo<int>::k(float)", "k"),
        ("void k(int) const [clone .0]", "k"),
        ("(((", "((("),
        ("", ""),
    ],
)
def test_function_name_of_other_compilers(demangled: str, name: str) -> None:
    assert function_name(demangled) == name


@given(st.text(alphabet="ab<>()[]:,- operatunmd\0", max_size=40))
def test_any_name_has_a_function_name(demangled: str) -> None:
    assert function_name(demangled) or not demangled
