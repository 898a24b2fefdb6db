"""Names of functions in demangled names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.measure.counters.counter_source import function_name


@pytest.mark.parametrize(
    ("demangled", "name"),
    [
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
