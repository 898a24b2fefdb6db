"""CUPTI in a process with other profilers: the first one stays, and the plugin goes without or gives way."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch

from fake_cupti import Client, FakeCupti, install_on_a_gpu
from pytest_gpuperf.measure.cupti import libcupti
from pytest_gpuperf.measure.cupti.activity import recorded
from pytest_gpuperf.measure.cupti.libcupti import OWNER, CuptiError
from pytest_gpuperf.measure.cupti.range_profiler import RangeProfiler
from pytest_gpuperf.measure.first_calls import CodeReader, watched_modules
from pytest_gpuperf.records.call import Call

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

TIME = "gpu__time_duration.sum"


@pytest.fixture
def cupti(monkeypatch: pytest.MonkeyPatch) -> FakeCupti:
    made = FakeCupti({TIME: 5000.0})
    install_on_a_gpu(monkeypatch, made)
    return made


@pytest.fixture
def client(cupti: FakeCupti) -> Client:
    return Client(cupti)


def watched() -> AbstractContextManager[None]:
    return watched_modules(lambda _: None)


USES: list[Callable[[], AbstractContextManager[object]]] = [recorded, watched]


@pytest.mark.parametrize("use", USES)
def test_client_around_a_test_keeps_cupti(
    cupti: FakeCupti, client: Client, use: Callable[[], AbstractContextManager[object]]
) -> None:
    client.start()
    OWNER.detach()
    with pytest.raises(CuptiError, match=r"^another profiler holds CUPTI in this process"), use():
        raise AssertionError
    with pytest.raises(CuptiError, match="another profiler holds CUPTI"):
        RangeProfiler(cupti)
    client.stop()
    with use():
        assert cupti.attached


def test_session_of_proton_is_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = SimpleNamespace(flags=SimpleNamespace(profiling_on=True))
    monkeypatch.setitem(sys.modules, "triton.profiler.flags", flags)
    client.start()
    with pytest.raises(CuptiError, match=r"^a session of Triton's proton holds CUPTI"), recorded():
        pass


@pytest.mark.parametrize("client", ["torch.profiler is running", "cupti-python is imported"])
def test_client_that_cupti_does_not_know_keeps_it(
    cupti: FakeCupti, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    if client.startswith("torch"):
        monkeypatch.setattr(torch.autograd.profiler, "_is_profiler_enabled", True)
    else:
        monkeypatch.setitem(sys.modules, "cupti.cupti", sys)
    OWNER.detach()
    for use in USES:
        with pytest.raises(CuptiError, match=rf"^{client} .* CUPTI in this process"), use():
            raise AssertionError
    assert (cupti.called, cupti.finalised) == ([], 0)


def test_torch_profiler_that_has_ended_is_detached(
    cupti: FakeCupti, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.start()
    monkeypatch.setattr(libcupti, "kineto_has_run", lambda: True)
    OWNER.detach()
    assert (cupti.finalised, cupti.subscriber) == (1, 0)
    # It subscribes once in a process, so this is another client.
    client.start()
    OWNER.detach()
    client.stop()


def test_torch_tells_whether_a_profiler_has_run() -> None:
    code = """
import torch
from pytest_gpuperf.measure.cupti.libcupti import kineto_has_run
print(kineto_has_run())
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
    torch.ones(1)
print(kineto_has_run())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_each_use_detaches_cupti(cupti: FakeCupti) -> None:
    for number, use in enumerate(USES * 2, 1):
        with use():
            assert cupti.attached
        assert (cupti.finalised, cupti.subscriber, cupti.kinds) == (number, 0, set())


def test_uses_share_one_attachment(cupti: FakeCupti) -> None:
    with OWNER.kept():
        for use in (watched, recorded, recorded):
            with use():
                pass
            assert (cupti.finalised, cupti.subscriber, cupti.kinds) == (0, 0, set())
    assert cupti.finalised == 1


@pytest.mark.parametrize("use", USES)
def test_error_detaches_cupti(cupti: FakeCupti, use: Callable[[], AbstractContextManager[object]]) -> None:
    with pytest.raises(ZeroDivisionError), OWNER.kept(), use():
        raise ZeroDivisionError
    assert (cupti.finalised, cupti.subscriber, cupti.kinds) == (1, 0, set())


def test_refusals_detach_cupti(cupti: FakeCupti) -> None:
    cupti.refusals = {"EnableCallback": 35, "ProfilerInitialize": 35}
    with pytest.raises(CuptiError, match="denies hardware counters"), watched():
        raise AssertionError
    with pytest.raises(CuptiError, match="denies hardware counters"):
        RangeProfiler(cupti)
    assert (cupti.finalised, cupti.subscriber, cupti.kinds) == (2, 0, set())


def test_client_that_comes_during_a_recording_keeps_cupti(cupti: FakeCupti, client: Client) -> None:
    with recorded(stay=True):
        client.start()
    with pytest.raises(CuptiError, match="another profiler holds CUPTI"), recorded(stay=True):
        raise AssertionError
    OWNER.detach()
    client.stop()


def test_client_within_a_recording_works(cupti: FakeCupti, client: Client) -> None:
    with recorded() as activities:
        client.start()
        client.stop()
    assert (activities, cupti.subscriber, cupti.attached) == ([], 0, False)


def test_callable_that_needs_cupti_is_called_again_without(cupti: FakeCupti, client: Client) -> None:
    def checked() -> str:
        client.start()
        client.stop()
        return "equal"

    assert CodeReader("580.1").watched("t.py::t", checked) == "equal"
    assert (cupti.subscriber, cupti.attached) == (0, False)


def test_callable_that_fails_otherwise_is_not_called_again(cupti: FakeCupti) -> None:
    called: list[int] = []

    def fails() -> None:
        called.append(1)
        raise ValueError("a bad shape")

    with pytest.raises(ValueError, match="a bad shape"):
        CodeReader("580.1").watched("t.py::t", fails)
    assert called == [1]


def test_torch_profiler_of_a_callable_can_subscribe(cupti: FakeCupti, client: Client) -> None:
    make = torch.autograd.profiler.profile.__init__
    with watched():
        assert cupti.subscriber
        torch.autograd.profiler.profile(use_kineto=True)
        client.start()
        client.stop()
    assert torch.autograd.profiler.profile.__init__ is make


def test_no_watch_begins_once_proton_is_imported(cupti: FakeCupti, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton.profiler", sys)
    with pytest.raises(CuptiError, match="proton is imported"), watched():
        raise AssertionError
    with recorded():
        assert cupti.attached


def test_code_is_read_without_a_callables_profiler(cupti: FakeCupti, client: Client) -> None:
    def fn() -> None:
        client.start()
        client.stop()

    found = CodeReader("580.1").read(Call("t.py::t", "main", fn))
    assert (found.kernels, found.unavailable) == ((), "CUPTI recorded nothing")


def test_counters_are_left_to_a_callables_profiler(cupti: FakeCupti) -> None:
    def call() -> None:
        raise RuntimeError("Failed to execute cuptiSubscribe with error 39")

    with pytest.raises(CuptiError, match="the callable itself uses CUPTI in this process"):
        RangeProfiler(cupti).read(call, (TIME,), 1)
    assert (cupti.state, cupti.attached) == ("away", False)
