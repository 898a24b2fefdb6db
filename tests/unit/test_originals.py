"""Functions that were replaced since the import of the plugin."""

from __future__ import annotations

import builtins
import statistics
import sys
import time
from contextlib import nullcontext
from types import FunctionType, ModuleType

import pytest
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.device.originals import Originals


def replacement(*_: object) -> float:
    return 0.0


def test_nothing_is_replaced_at_first() -> None:
    assert Originals("pytest_gpuperf").patched() == ""


@pytest.mark.parametrize(
    ("owner", "name", "shown"),
    [
        (time, "perf_counter", "time.perf_counter"),
        (builtins, "round", "builtins.round"),
        (statistics, "fsum", "statistics.fsum"),
        (torch.cuda, "synchronize", "torch.cuda.synchronize"),
        (torch.cuda, "Event", "torch.cuda.Event"),
        (torch.cuda.Event, "elapsed_time", "torch.cuda.Event.elapsed_time"),
        (torch.cuda.CUDAGraph, "replay", "torch.cuda.CUDAGraph.replay"),
        (torch.Tensor, "zero_", "torch.Tensor.zero_"),
    ],
)
def test_replacement_is_named(owner: object, name: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Originals()
    monkeypatch.setattr(owner, name, replacement)
    assert before.patched() == f"{shown} (replaced by replacement in test_originals.py)"


def test_function_replaced_before_the_import_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", replacement)
    assert Originals().patched().startswith("torch.cuda.synchronize")


@pytest.mark.parametrize(
    ("owner", "name", "shown"), [(torch, "square", "torch.square"), (torch.Tensor, "exp", "torch.Tensor.exp")]
)
def test_function_of_torch_replaced_by_a_callable_is_refused(
    owner: object, name: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GpuperfError, match=f"replaced {shown} "), originals.library_unchanged():
        monkeypatch.setattr(owner, name, replacement)


def test_library_may_wrap_the_choice_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Originals()
    monkeypatch.setattr(torch.cuda, "set_stream", replacement)  # as vLLM does at its import
    assert (before.patched(), Originals().patched()) == ("", "")


def test_new_attribute_of_torch_is_no_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    with originals.library_unchanged():
        monkeypatch.setattr(torch.Tensor, "halved", replacement, raising=False)


def test_stopped_clock_of_a_test_library_is_no_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = FunctionType(replacement.__code__, {"__name__": "freezegun.api"})
    monkeypatch.setattr(time, "perf_counter", frozen)
    assert Originals().patched() == ""


def test_own_clock_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", replacement)
    assert originals.now() > 0


def test_each_device_in_use_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: dict[int, nullcontext[None]] = {}
    waits: list[list[int]] = []
    monkeypatch.setattr(originals, "_SYNCHRONIZE", lambda: waits.append([*entered]))
    monkeypatch.setattr(originals, "_ON_DEVICE", lambda device: entered.setdefault(device, nullcontext()))
    monkeypatch.setattr(originals, "_CURRENT_DEVICE", lambda: 0)
    monkeypatch.setattr(originals, "_HAS_CONTEXT", lambda device: device != 1)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    originals.synchronize()
    assert waits == [[], [2]]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("measuring.clock")
    exec(
        "LEAST = 1\nLIMITS = {1: 2}\ndef now(a=1, *, b=2): pass\n"
        "class Timer:\n    def time(self): pass\n    @property\n    def late(self): return True",
        vars(module),
    )
    vars(module)["__name__"] = module.Timer.__module__ = module.now.__module__ = "measuring.clock"
    monkeypatch.setitem(sys.modules, "measuring.clock", module)
    return module


@pytest.mark.parametrize(
    ("attack", "shown"),
    [
        ("LEAST = 9", "measuring.clock.LEAST"),
        ("LIMITS[1] = 9", "measuring.clock.LIMITS"),
        ("now = print", "measuring.clock.now"),
        ("Timer.time = print", "measuring.clock.Timer.time"),
        ("now.__code__ = (lambda a=1, *, b=2: 0).__code__", "measuring.clock.now"),
        ("now.__defaults__ = (9,)", "measuring.clock.now"),
        ("now.__kwdefaults__['b'] = 9", "measuring.clock.now"),
        ("Timer.time.__code__ = (lambda self: 0).__code__", "measuring.clock.Timer.time"),
        ("Timer.late = property(lambda self: False)", "measuring.clock.Timer.late"),
        ("Timer.late.fget.__code__ = (lambda self: False).__code__", "measuring.clock.Timer.late"),
    ],
)
def test_changed_part_of_the_package_is_named(package: ModuleType, attack: str, shown: str) -> None:
    before = Originals("measuring")
    assert before.patched() == ""
    exec(attack, vars(package))
    assert before.patched().startswith(shown)


def test_stopped_variable_is_no_patch(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Originals("measuring")
    monkeypatch.setattr(package, "LEAST", type("FakeDatetime", (), {"__module__": "freezegun.api"}))
    assert before.patched() == ""


def test_new_submodule_is_no_patch(package: ModuleType) -> None:
    before = Originals("measuring")
    vars(package)["later"] = ModuleType("measuring.clock.later")
    assert before.patched() == ""
