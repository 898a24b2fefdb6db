"""Tests of the inner session: each honest callable in each mode and type."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from benchmarks.defences import programs
from benchmarks.defences.operators import DTYPES, OPERATORS
from benchmarks.defences.results import PART

if TYPE_CHECKING:
    from exploits.verdicts import Recorder
    from pytest_gpuperf.plugin.facade import Gpuperf

assert programs
NUMBER, OF = map(int, os.environ.get(PART, "1/1").split("/"))
MODES = ("auto", "hot", "cold", "queued", "kernels", "host")


@pytest.mark.parametrize("name", list(OPERATORS)[NUMBER - 1 :: OF])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_callable(gpuperf: Gpuperf, name: str, dtype: str, mode: str, record_property: Recorder) -> None:
    record_property("case", (f"{name}-{dtype}", mode))
    one = OPERATORS[name](gpuperf.device, DTYPES[dtype])
    if one.expected is not None:
        gpuperf.check(
            one.fn,
            *one.args,
            expected=one.expected,
            mutates=one.mutates,
            rtol=one.rtol,
            atol=one.atol,
        )
    timing = gpuperf.time(one.fn, *one.args, mode=mode)
    record_property("time", (timing.mode, timing.time_us))
