"""The operators and programs of the benchmark of the defences, in float32."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from benchmarks.defences import programs
from benchmarks.defences.operators import OPERATORS, Honest
from benchmarks.zoo.cases import add

if TYPE_CHECKING:
    from collections.abc import Callable


def _in_float32(make: Callable[[torch.device, torch.dtype], Honest], device: torch.device) -> Honest:
    return make(device, torch.float32)


for _name, _make in OPERATORS.items():
    _is_program = _make.__module__ == programs.__name__
    add("programs" if _is_program else "operators", _name, partial(_in_float32, _make), cuda=_is_program)
