"""Kernels of two commits next to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_gpuperf.against.compile_plugin import Outcomes
from pytest_gpuperf.against.compiled import Compilation, differences
from static_builders import kernel as built

if TYPE_CHECKING:
    from pytest_gpuperf.records import StaticKernel

TEST = "test_a.py::test_a"
LABEL = (TEST, "sm_90")


def side(kernel: StaticKernel | None = None, reasons: dict[str, str] | None = None) -> Compilation:
    kernels = {} if kernel is None else {LABEL: kernel}
    return Compilation(kernels, Outcomes([TEST], reasons or {}))


def found(old: Compilation, new: Compilation) -> list[Any]:
    return [(one.state, one.differs) for one in differences(old, new)]


def kernel(code: str = "a" * 64) -> StaticKernel:
    return built(code=code)


def test_same_code_and_launch_are_unchanged() -> None:
    assert found(side(kernel()), side(kernel())) == [("unchanged", ())]


def test_changed_fact_is_named() -> None:
    registers = kernel().registers_per_thread
    new = replace(kernel("b" * 64), registers_per_thread=registers + 8, tensor_instructions=())
    old = replace(kernel(), tensor_instructions=("wgmma",))
    assert found(side(old), side(new)) == [
        (
            "changed",
            (f"registers_per_thread {registers} to {registers + 8}", "tensor_instructions wgmma to none"),
        )
    ]


def test_same_facts_with_other_code_are_changed() -> None:
    assert found(side(kernel()), side(kernel("b" * 64))) == [("changed", ("instructions",))]


def test_same_code_with_another_block_is_changed() -> None:
    size = kernel().block_size
    assert found(side(kernel()), side(replace(kernel(), block_size=2 * size))) == [
        ("changed", (f"block_size {size} to {2 * size}",))
    ]


def test_kernel_of_one_side_is_added_or_removed() -> None:
    assert found(side(), side(kernel())) == [("added", ())]
    assert found(side(kernel()), side()) == [("removed", ())]


def test_test_that_fails_on_one_side_is_unknown() -> None:
    old = side(reasons={TEST: "no such module"})
    assert found(old, side(kernel())) == [
        ("unknown", ("old code: no such module",)),
        ("unknown", ("no such module",)),
    ]


def test_file_that_cannot_be_collected_is_unknown() -> None:
    broken = Compilation({}, Outcomes([], {"test_b.py": "SyntaxError"}))
    assert found(broken, broken) == [("unknown", ("SyntaxError",))]


def test_test_that_ends_after_a_kernel_is_also_unknown() -> None:
    both = side(kernel(), {TEST: "it needs a GPU"})
    assert found(both, both) == [("unchanged", ()), ("unknown", ("it needs a GPU",))]
