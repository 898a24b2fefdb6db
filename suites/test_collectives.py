"""Work on two GPUs: collectives over sizes, a sum over symmetric memory, a product behind an all-gather."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from suites.kernels.collectives import (
    COLLECTIVES,
    MIB,
    buffers,
    collected,
    gathered_product,
    overlapped_product,
    product_of_all,
    shards,
)
from suites.kernels.symmetric_sum import symmetric_buffer, symmetric_sum
from suites.products import BFLOAT16_RTOL, accumulation_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf import GpuperfRanks
    from pytest_gpuperf.records.ranks import Collective

pytestmark = pytest.mark.gpuperf(gpus=2)
M, N, K = 4096, 8192, 8192
"""Rows of the left matrix on each rank, columns of the right one, and elements of each sum."""


@pytest.mark.parametrize("mib", [1, 16, 256])
@pytest.mark.parametrize("kind", COLLECTIVES)
def test_collective(gpuperf_ranks: GpuperfRanks, kind: Collective, mib: int) -> None:
    gpuperf_ranks(
        COLLECTIVES[kind],
        inputs=partial(buffers, kind, mib * MIB),
        expected=partial(collected, kind, mib * MIB),
        mutates=(0,),
        collective=kind,
        bytes=mib * MIB,
    )


@pytest.mark.parametrize("mib", [1, 16])
def test_symmetric_sum(gpuperf_ranks: GpuperfRanks, mib: int) -> None:
    gpuperf_ranks(
        symmetric_sum,
        inputs=partial(symmetric_buffer, mib * MIB),
        expected=partial(collected, "all_reduce", mib * MIB),
        collective="all_reduce",
        bytes=mib * MIB,
    )


@pytest.mark.parametrize("product", [gathered_product, overlapped_product])
def test_product_of_shards(gpuperf_ranks: GpuperfRanks, product: Callable[..., object]) -> None:
    gpuperf_ranks(
        product,
        inputs=partial(shards, M, N, K),
        expected=partial(product_of_all, M, N, K),
        rtol=BFLOAT16_RTOL,
        atol=accumulation_error(K),
        flops=2 * gpuperf_ranks.world * M * N * K,
    )
