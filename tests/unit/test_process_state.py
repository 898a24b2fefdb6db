"""Settings that a callable must leave as they are."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch

from pytest_gpuperf.measure.device.originals import ProcessState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def state() -> Iterator[ProcessState]:
    now = ProcessState()
    yield now
    now.change()


def hook(*_: object) -> None: ...


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (
            lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
            "torch.backends.cuda.matmul.allow_tf32 from False to True",
        ),
        (
            lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
            "torch.backends.cuda.matmul.allow_tf32 from False to None",
        ),
        (
            lambda: setattr(torch.backends.cudnn, "fp32_precision", "ieee"),
            "torch.backends.cudnn.allow_tf32 from True to None",
        ),
        (lambda: torch.set_default_dtype(torch.float64), "torch.get_default_dtype() from torch.float32"),
        (
            lambda: torch.set_autocast_enabled("cuda", True),
            "torch.is_autocast_enabled('cuda') from False to True",
        ),
        (lambda: sys.setprofile(hook), "sys.getprofile() from None"),
        (lambda: threading.setprofile(hook), "threading.getprofile() from None"),
    ],
    ids=["tf32", "precision", "precision of cuDNN", "default type", "autocast", "profile", "threads"],
)
def test_change_is_named_and_put_back(state: ProcessState, change: Callable[[], Any], shown: str) -> None:
    assert state.change() == ""
    change()
    assert state.change().startswith(shown)
    assert state.change() == ""


def test_tf32_may_be_used_and_put_back(state: ProcessState) -> None:
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = True
    matmul.allow_tf32 = before
    assert state.change() == ""


def test_precision_of_cudnn_without_a_flag_is_named(state: ProcessState) -> None:
    cudnn: Any = torch.backends.cudnn
    for owner in (cudnn, cudnn.rnn):
        owner.fp32_precision = "ieee"
    found = ProcessState()
    cudnn.fp32_precision = "none"
    assert found.change() == "torch.backends.cudnn.fp32_precision from ieee to none"
    assert found.change() == ""
    state.change()
    cudnn.rnn.fp32_precision = "none"


def test_active_mode_is_named(state: ProcessState) -> None:
    with torch.device("meta"):
        assert state.change() == "the number of active torch function modes from 0 to 1"
    assert state.change() == ""


def test_replaced_kernel_is_named_and_own_operators_are_not(state: ProcessState) -> None:
    library: Any = torch.library.Library
    own = library("gpuperf_test", "FRAGMENT")
    own.define("double(Tensor x) -> Tensor")
    own.impl("double", lambda x: 2 * x, "CPU")
    assert state.change() == ""
    aten = library("aten", "IMPL")
    aten.impl("square", lambda x: x, "CUDA")
    assert state.change() == "the kernel of aten/square/CUDA"
    aten._destroy()
    own._destroy()
