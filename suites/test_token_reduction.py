"""ViT-B/16 with and without token reduction: half of the operations, more launches, not always faster.

Times are the host's and include launches, so that blocks launched one by one, as a CUDA graph and compiled
can be compared.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
import torch

from suites.kernels.graphed import Graphed
from suites.kernels.token_reduction import REDUCING, WIDTH, Encoder, reducing_block, tokens_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf import Gpuperf
    from suites.kernels.token_reduction import Choice

    Encode = Callable[[torch.Tensor], tuple[torch.Tensor, tuple[Choice, ...]]]
    Compared = tuple[torch.Tensor, list[torch.Tensor]]

sizes = pytest.mark.parametrize(("size", "batch"), list(product((224, 448), (1, 4, 8))))
small = pytest.mark.parametrize(("size", "batch"), [(224, 1)])

TOLERANCE = 0.03
"""Absolute error of tokens, whose elements have a variance of 1 after the last norm. Float16 rounds to 11
bits, each time by up to 2^-11. An element is the sum of 24 branches with rounded inputs: together
2^-11 · sqrt(2 · 24) = 0.003. The largest of a hundred thousand errors is five times that, and this is twice
the largest. A token in another's place differs by 1 and more.

The logarithm of a token's attention is a mean of scores. Scores are an eighth of sums of 64 products of such
numbers, with errors no larger; a wrongly kept token differs by tenths."""

# The host's time for launches depends on its CPU and on its other load.
pytestmark = [pytest.mark.gpuperf(tolerance=50)]


def encoder_and_tokens(
    gpuperf: Gpuperf, size: int, batch: int, reducing: tuple[int, ...]
) -> tuple[Encoder, torch.Tensor]:
    torch.manual_seed(0)
    encoder = Encoder.random(gpuperf.device, torch.float16, reducing)
    tokens = torch.randn(batch, tokens_of(size), WIDTH, device=gpuperf.device, dtype=torch.float16)
    return encoder, tokens


def measure(gpuperf: Gpuperf, encode: Encode, encoder: Encoder, x: torch.Tensor) -> None:
    """Check, time and trace `encode`, which must return the result of `encoder`."""

    # Rounding decides between two tokens with nearly equal attention. So the reference keeps the chosen
    # tokens, and the attention of each is compared, largest first. The k-th largest value moves by no more
    # than the values do, so a wrong choice shows. `check` calls the reference with float64, too, for which
    # `encode` would be compiled once more.
    def reference(given: torch.Tensor) -> Compared:
        places = tuple(places for _, places in encode(given.to(x.dtype))[1])
        return compared(*encoder.to(torch.float32)(given.float(), places))

    gpuperf.check(lambda x: compared(*encode(x)), x, expected=reference, rtol=0.0, atol=TOLERANCE)
    gpuperf.time(encode, x, mode="host", flops=encoder.flops(*x.shape[:2]))
    gpuperf.trace(encode, x)


def compared(tokens: torch.Tensor, choices: tuple[Choice, ...]) -> Compared:
    return tokens, [paid.log() for paid, _ in choices]


@sizes
@pytest.mark.gpuperf(limits=["launches <= 180"])
def test_full(gpuperf: Gpuperf, size: int, batch: int) -> None:
    encoder, x = encoder_and_tokens(gpuperf, size, batch, ())
    measure(gpuperf, encoder, encoder, x)


@sizes
@pytest.mark.gpuperf(limits=["launches <= 240"])
def test_reduced(gpuperf: Gpuperf, size: int, batch: int) -> None:
    encoder, x = encoder_and_tokens(gpuperf, size, batch, REDUCING)
    measure(gpuperf, encoder, encoder, x)


# There are as many launches, but the host does not wait for Python between them.
@small
@pytest.mark.gpuperf(limits=["gpu_busy >= 50", "launches <= 180"])
def test_full_as_graph(gpuperf: Gpuperf, size: int, batch: int) -> None:
    encoder, x = encoder_and_tokens(gpuperf, size, batch, ())
    measure(gpuperf, Graphed(encoder), encoder, x)


@small
@pytest.mark.gpuperf(limits=["gpu_busy >= 50", "launches <= 240"])
def test_reduced_as_graph(gpuperf: Gpuperf, size: int, batch: int) -> None:
    encoder, x = encoder_and_tokens(gpuperf, size, batch, REDUCING)
    measure(gpuperf, Graphed(encoder), encoder, x)


# A launch for each operation makes 121: ten for each block and one for the last norm. Choosing tokens makes
# it 151. Fused, there are fewer.
@small
@pytest.mark.gpuperf(limits=["launches <= 120"])
def test_full_compiled(gpuperf: Gpuperf, size: int, batch: int) -> None:
    encoder, x = encoder_and_tokens(gpuperf, size, batch, ())
    measure(gpuperf, compiled(encoder), encoder, x)


@small
@pytest.mark.gpuperf(limits=["launches <= 150"])
def test_reduced_compiled(gpuperf: Gpuperf, size: int, batch: int) -> None:
    encoder, x = encoder_and_tokens(gpuperf, size, batch, REDUCING)
    measure(gpuperf, compiled(encoder), encoder, x)


def compiled(encoder: Encoder) -> Encode:
    """Compile at the first call, without what Inductor decides by timing: other kernels in each process.

    It would pad some products, by a kernel of its own, and leave others as they are.
    """

    @cache
    def compiled_encoder() -> Any:
        return torch.compile(
            encoder.__call__,
            dynamic=False,
            options={"triton.autotune_pointwise": False, "shape_padding": False},
        )

    return lambda x: compiled_encoder()(x)


@pytest.mark.gpuperf(kernels=r"gemm|nvjet|attention|flash|fmha|sdpa|softmax|[tT]op[kK]|gather")
def test_counters_of_a_reducing_block(gpuperf: Gpuperf) -> None:
    """Read counters of the kernels that matter, unlike the copies at the start.

    cuBLAS's products for Hopper have no `gemm` in their names, FlashAttention's kernels no `attention`.
    """
    encoder, x = encoder_and_tokens(gpuperf, 224, 1, REDUCING)
    profile = gpuperf.profile(reducing_block, encoder.blocks[REDUCING[0]], x)
    # In the run under ncu no name is known yet.
    names = " ".join(f"{kernel.name} {kernel.demangled}".lower() for kernel in profile.kernels if kernel.name)
    assert not names or all(part in names for part in ("softmax", "topk", "gather"))
