"""Outputs that are late, on a GPU whose streams run what they hold if they are asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import torch

from pytest_gpuperf.measure.correctness import late_writes
from pytest_gpuperf.measure.correctness.call_tensors import Arguments
from pytest_gpuperf.measure.correctness.late_writes import late_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LATE = " late: another stream still writes when the current stream goes on after the call"


@dataclass
class TwoStreams:
    """A GPU with the current stream and another one, both of which a hold stops."""

    current: list[Callable[[], object]] = field(default_factory=list)
    other: list[Callable[[], object]] = field(default_factory=list)
    held: bool = False
    longest_us: float = 0.0

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def hold(self, microseconds: float) -> None:
        self.held, self.longest_us = True, microseconds

    def is_idle(self) -> bool:
        return not self.current

    def release(self) -> None:
        self.held = False

    def read(self, tensors: Sequence[torch.Tensor]) -> Callable[[], list[bytes]]:
        found: list[bytes] = []
        self.current.append(lambda: found.extend(tensor.numpy().tobytes() for tensor in tensors))
        return lambda: found

    def join(self) -> None:
        """Let the current stream wait for the other one."""
        self.current.append(lambda: self._run(self.other))

    def finish(self, _: object = None) -> None:
        """Run everything, the other stream last."""
        assert not self.held
        self._run(self.current)
        self._run(self.other)

    def _run(self, stream: list[Callable[[], object]]) -> None:
        while stream:
            stream.pop(0)()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> TwoStreams:
    streams = TwoStreams()
    monkeypatch.setattr(late_writes, "finish", streams.finish)
    return streams


def late(gpu: Any, fn: Callable[..., object], *args: object, mutates: bool = False) -> str:
    return late_outputs(fn, args, {}, Arguments(args, {}, mutates), gpu)


def squared(gpu: TwoStreams, *, on: str, join: bool = False, also: bool = True) -> Callable[..., object]:
    """Return a function that computes one output on a stream, and something else on the current one."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        if also:
            gpu.current.append(x.clone)
        getattr(gpu, on).append(lambda: torch.square(x, out=out))
        if join:
            gpu.join()
        return out

    return fn


@pytest.mark.parametrize(
    ("given", "elements"),
    [
        ({"on": "current"}, 8),
        ({"on": "other", "join": True}, 8),
        ({"on": "other", "also": False}, 8),
        ({"on": "other"}, 0),
    ],
    ids=["current stream", "joined stream", "nothing on the current stream", "empty"],
)
def test_output_that_is_not_late(gpu: TwoStreams, given: dict[str, Any], elements: int) -> None:
    assert late(gpu, squared(gpu, **given), torch.arange(1.0, 1.0 + elements)) == ""


def test_only_late_outputs_are_named(gpu: TwoStreams) -> None:
    def fn(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {on: squared(gpu, on=on)(x) for on in ("current", "other")}  # type: ignore[misc]

    assert late(gpu, fn, torch.arange(1.0, 9.0)).startswith(f"output['other'] is{LATE}")


def test_argument_that_is_written_late_is_named_and_put_back(gpu: TwoStreams) -> None:
    x = torch.arange(1.0, 9.0)

    def fn(x: torch.Tensor) -> None:
        gpu.current.append(x.clone)
        gpu.other.append(lambda: x.mul_(2))

    assert late(gpu, fn, x, mutates=True).startswith(f"argument 0 is{LATE}")
    assert x.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(("host_s", "hold_us"), [(0.003, 11_000), (1.0, 0)])
def test_gpu_is_held_for_longer_than_the_call_unless_it_is_slow(
    gpu: TwoStreams, monkeypatch: pytest.MonkeyPatch, host_s: float, hold_us: float
) -> None:
    clock = iter([0.0, host_s])
    monkeypatch.setattr(late_writes, "now", lambda: next(clock))
    assert late(gpu, squared(gpu, on="current"), torch.ones(1)) == ""
    assert gpu.longest_us == pytest.approx(hold_us)


def test_gpu_is_released_if_the_call_fails(gpu: TwoStreams) -> None:
    calls = iter([torch.ones(1)])
    with pytest.raises(StopIteration):
        late(gpu, lambda _: next(calls), torch.ones(1))
    assert gpu.longest_us
    assert not gpu.held


class OnGpu:
    """An array of another library."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def test_arrays_of_other_libraries_are_not_looked_at(gpu: TwoStreams) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, OnGpu]:
        return squared(gpu, on="other")(x), OnGpu()  # type: ignore[return-value]

    assert late(gpu, fn, torch.ones(1)) == ""
