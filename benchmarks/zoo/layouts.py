"""Tensors that lie in memory in other ways: views, padding, ragged rows, and containers of outputs."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.cases import add, close, honest
from benchmarks.zoo.steps import matrix
from benchmarks.zoo.typed_operators import Honest

if TYPE_CHECKING:
    from collections.abc import Callable


def _view(name: str, view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Add a callable of a view: the argument itself lies in memory like that."""

    def make(device: torch.device) -> Honest:
        return Honest(lambda x: x * 2 + 1, (view(matrix(device)),), lambda x: torch.add(x * 2, 1))

    add("views", name, make)


_view("transposed", torch.t)
_view("strided", lambda x: x[::2, ::3])
_view("narrow", lambda x: x[3:200, 5:77])
_view("misaligned", lambda x: x.flatten()[1:])
_view("expanded_argument", lambda x: x[:1].expand(256, -1))
_view("diagonal", torch.diagonal)
_view("zero_dimensional", lambda x: x[3, 5])
_view("windows", lambda x: x.unfold(1, 8, 4))


@honest("views")
def expanded_output(device: torch.device) -> Honest:
    args = (matrix(device, 64, 64),)
    return Honest(lambda x: (x + 1).expand(8, -1, -1), args, lambda x: torch.stack([x + 1] * 8))


@honest("views")
def views_of_one_output(device: torch.device) -> Honest:
    """Return three views of one buffer, as a fused projection does."""

    def call(x: torch.Tensor, w: torch.Tensor) -> Any:
        return (x @ w).chunk(3, -1)

    def expected(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        return [x.double() @ part.double() for part in w.chunk(3, -1)]

    return close(call, (matrix(device), matrix(device, 512, 768) / 22), expected)


@honest("views")
def output_and_its_view(device: torch.device) -> Honest:
    def call(x: torch.Tensor) -> Any:
        y = x.exp()
        return y, y[::2], y.t()

    return Honest(call, (matrix(device),), lambda x: (x.exp(), x[::2].exp(), x.t().exp()))


@honest("views")
def output_in_columns(device: torch.device) -> Honest:
    return Honest(lambda x: (x + 1).t(), (matrix(device, 512, 256),), lambda x: x.t() + 1)


@honest("views")
def channels_last(device: torch.device) -> Honest:
    image = torch.randn(8, 16, 32, 32, device=device).to(memory_format=torch.channels_last)
    weight = torch.randn(32, 16, 3, 3, device=device).to(memory_format=torch.channels_last) / 12
    return close(F.conv2d, (image, weight), lambda x, w: F.conv2d(x.double(), w.double()))


@honest("views")
def as_strided_windows(device: torch.device) -> Honest:
    """Read overlapping windows."""

    def call(x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((1000, 16), (4, 1)).sum(-1)

    args = (torch.randn(4 * 1000 + 12, device=device),)
    return close(call, args, lambda x: x.double().unfold(0, 16, 4)[:1000].sum(-1), tolerance=1e-4)


@honest("views")
def empty_rows(device: torch.device) -> Honest:
    """Return an empty tensor next to a full one."""
    return Honest(lambda x: (x + 1, x[:0] + 1), (matrix(device),), lambda x: (1 + x, 1 + x[:0]))


@honest("padded and ragged")
def capacity_of_experts(device: torch.device) -> Honest:
    """Fill only the valid part of a padded buffer, which is an argument."""
    counts = [50, 0, 64, 13]

    def call(x: torch.Tensor, out: torch.Tensor) -> None:
        begin = 0
        for expert, rows in enumerate(counts):
            out[expert, :rows] = x[begin : begin + rows] * 2
            begin += rows

    def expected(x: torch.Tensor, out: torch.Tensor) -> None:
        for expert, part in enumerate(torch.split(x, counts)):
            out[expert, : len(part)].copy_(part + part)

    args = matrix(device, sum(counts), 256), torch.zeros(len(counts), 64, 256, device=device)
    return Honest(call, args, expected, mutates=(1,))


@honest("padded and ragged")
def padded_rows(device: torch.device) -> Honest:
    """Return the valid part of a buffer with padded rows."""

    def call(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(x), 1024, device=device)[:, :1000]
        return torch.mul(x, 3, out=out)

    return Honest(call, (matrix(device, 256, 1000),), lambda x: 3 * x)


@honest("padded and ragged")
def masked_softmax(device: torch.device) -> Honest:
    lengths = torch.arange(1, 257, device=device)
    mask = torch.arange(256, device=device) < lengths[:, None]

    def call(x: torch.Tensor) -> torch.Tensor:
        return x.masked_fill(~mask, float("-inf")).softmax(-1)

    def expected(x: torch.Tensor) -> torch.Tensor:
        powers = x.double().exp() * mask
        return powers / powers.sum(-1, keepdim=True)

    return close(call, (matrix(device, 256, 256),), expected, tolerance=1e-5)


@honest("padded and ragged")
def jagged(device: torch.device) -> Honest:
    """Work on a nested tensor."""
    offsets = torch.tensor([0, 100, 130, 512], device=device)

    def call(x: torch.Tensor) -> Any:
        nested = torch.nested.nested_tensor_from_jagged(x, offsets)
        return (nested * 2).sin().values()

    return Honest(call, (matrix(device),), lambda x: (2 * x).sin(), rtol=1e-4, atol=1e-4)


@honest("padded and ragged")
def jagged_output(device: torch.device) -> Honest:
    offsets = torch.tensor([0, 100, 130, 512], device=device)

    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.nested.nested_tensor_from_jagged(x * 2, offsets)

    def expected(x: torch.Tensor) -> torch.Tensor:
        return torch.nested.nested_tensor_from_jagged(x.double() + x, offsets)

    return Honest(call, (matrix(device),), expected)


@honest("padded and ragged")
def infinite_bias(device: torch.device) -> Honest:
    """Add a bias that falls with the distance, and is infinite for later keys."""
    at = torch.arange(512, device=device)
    distance = (at[:, None] - at).float()
    bias = (distance * -0.03).masked_fill(distance < 0, float("-inf"))

    def call(scores: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return (scores + bias).softmax(-1)

    def expected(scores: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return (scores.double() + bias.double()).softmax(-1)

    return close(call, (torch.randn(512, 512, device=device), bias), expected, tolerance=1e-4)


@honest("padded and ragged")
def sums_of_segments(device: torch.device) -> Honest:
    lengths = torch.tensor([100, 30, 382], device=device)

    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.segment_reduce(x, "sum", lengths=lengths)

    def expected(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([part.double().sum(0) for part in torch.split(x, [100, 30, 382])])

    return close(call, (matrix(device),), expected, tolerance=1e-3)


@honest("padded and ragged")
def packed_sequences(device: torch.device) -> Honest:
    layer = torch.nn.GRU(32, 32, batch_first=True).to(device)
    lengths = torch.tensor([16, 9, 3, 1])

    def packed(layer: torch.nn.Module, x: torch.Tensor) -> Any:
        rows = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return layer(rows)[0].data.detach()

    def expected(x: torch.Tensor) -> Any:
        from copy import deepcopy

        return packed(deepcopy(layer).double(), x.double())

    return close(lambda x: packed(layer, x), (torch.randn(4, 16, 32, device=device),), expected)


@honest("padded and ragged")
def grouped_rows(device: torch.device) -> Honest:
    """Multiply groups of rows by matrices of their own."""
    ends = [100, 130, 512]

    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        begins = [0, *ends[:-1]]
        return torch.cat([x[b:e] @ one for b, e, one in zip(begins, ends, w, strict=True)])

    def expected(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        group = torch.bucketize(
            torch.arange(len(x), device=device), torch.tensor(ends, device=device), right=True
        )
        return (x.double()[:, None] @ w.double()[group])[:, 0]

    return close(call, (matrix(device, 512, 64), torch.randn(3, 64, 64, device=device) / 8), expected)


@honest("padded and ragged")
def padded_by_data(device: torch.device) -> Honest:
    """Return as many rows as the data has: the host waits for their number."""

    def call(x: torch.Tensor) -> torch.Tensor:
        return x[x[:, 0] > 0] * 2

    return Honest(call, (matrix(device),), lambda x: 2 * x[(x[:, 0] > 0).nonzero()[:, 0]])


@dataclass
class Pair:
    """Output with two fields."""

    y: torch.Tensor
    lse: torch.Tensor


class Attributes(dict[str, Any]):
    """Dict whose items are attributes, too."""

    __getattr__ = dict.__getitem__


class Named(NamedTuple):
    """The same as a named tuple."""

    y: torch.Tensor
    lse: torch.Tensor


def _container(name: str, wrap: Callable[[torch.Tensor, torch.Tensor], object]) -> None:
    """Add a callable that returns two tensors in some container."""

    def make(device: torch.device) -> Honest:
        def call(x: torch.Tensor) -> object:
            return wrap(x.softmax(-1), x.logsumexp(-1))

        def expected(x: torch.Tensor) -> object:
            powers = x.double().exp()
            sums = powers.sum(-1)
            return wrap(powers / sums[:, None], sums.log())

        return close(call, (matrix(device),), expected, tolerance=1e-4)

    add("containers", name, make)


_container("output_tuple", lambda y, lse: (y, lse))
_container("output_list", lambda y, lse: [y, lse])
_container("output_dict", lambda y, lse: {"y": y, "lse": lse})
_container("output_ordered_dict", lambda y, lse: OrderedDict(y=y, lse=lse))
_container("output_named_tuple", Named)
_container("output_dataclass", Pair)
_container("output_attributes", lambda y, lse: Attributes(y=y, lse=lse))
_container("output_nested", lambda y, lse: {"all": [y, (lse, {"again": lse})]})
_container("output_with_none", lambda y, lse: (y, None, lse))
_container("output_with_numbers", lambda y, lse: (y, 3, "text", lse))


@honest("containers")
def buffers_in_turn(device: torch.device) -> Honest:
    """Write into two buffers in turn, and return them in a dataclass."""
    buffers, calls = [matrix(device), matrix(device)], count()

    def call(x: torch.Tensor) -> Pair:
        out = torch.mul(x, 2, out=buffers[next(calls) % 2])
        return Pair(out, out[0])

    return Honest(call, (matrix(device),), lambda x: Pair(x + x, x[0] + x[0]))


@honest("containers")
def keyword_arguments(device: torch.device) -> Honest:
    """Take a dict of tensors as argument."""

    def call(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: one * 2 for name, one in batch.items()}

    batch = {"x": matrix(device), "y": matrix(device, 64)}
    return Honest(call, (batch,), lambda batch: {name: one + one for name, one in batch.items()})


@honest("containers")
def dataclass_argument(device: torch.device) -> Honest:
    args = (Pair(matrix(device), matrix(device)),)
    return Honest(lambda pair: pair.y + pair.lse, args, lambda pair: torch.add(pair.lse, pair.y))


@honest("containers")
def written_dataclass_argument(device: torch.device) -> Honest:
    """Write into a field of an argument, as into the cache of keys of a decoder."""

    def call(pair: Pair, x: torch.Tensor) -> torch.Tensor:
        pair.y[3] = x
        return pair.y.sum(0)

    args = (Pair(matrix(device), matrix(device)), matrix(device)[0])
    return close(call, args, lambda pair, x: pair.y.sum(0) - pair.y[3] + x, mutates=(0,))


@honest("containers")
def replaced_state(device: torch.device) -> Honest:
    """Replace the state that the call reads, as a recurrent cell does."""
    cell = torch.nn.GRUCell(64, 64).to(device)
    state = [matrix(device, 16, 64)]

    @torch.no_grad()
    def call(x: torch.Tensor) -> torch.Tensor:
        state[0] = cell(x, state[0])
        return state[0]

    return Honest(call, (matrix(device, 16, 64),))


def _complex_view(name: str, fn: Callable[[torch.Tensor], torch.Tensor], view: bool) -> None:
    """Add a callable of views that conjugate or negate: its argument is one, or its output."""

    def make(device: torch.device) -> Honest:
        x = torch.complex(matrix(device), matrix(device))
        return Honest(fn, ((x.mH if name.startswith("conj") else x.conj().imag) if view else x,))

    add("views", name, make)


_complex_view("conjugate_argument", lambda x: x * (1 + 2j), view=True)
_complex_view("negative_argument", lambda x: x * 3, view=True)
_complex_view("lazy_conjugate_output", lambda x: (x * 2).conj(), view=False)
_complex_view("lazy_negative_output", lambda x: (x * 2).conj().imag, view=False)


@honest("views")
def negative_buffers_in_turn(device: torch.device) -> Honest:
    """Write into two buffers in turn, and return a view that negates."""
    x, calls = torch.complex(matrix(device), matrix(device)), count()
    buffers = [x.clone(), x.clone()]
    return Honest(lambda x: torch.mul(x, 2, out=buffers[next(calls) % 2]).conj().imag, (x,))
