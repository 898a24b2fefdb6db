"""The operators and programs that take a type, in float32."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from benchmarks.zoo import typed_programs
from benchmarks.zoo.cases import add
from benchmarks.zoo.typed_operators import OPERATORS, Honest

if TYPE_CHECKING:
    from collections.abc import Callable


def _in_float32(make: Callable[[torch.device, torch.dtype], Honest], device: torch.device) -> Honest:
    return make(device, torch.float32)


for _name, _make in OPERATORS.items():
    _is_program = _make.__module__ == typed_programs.__name__
    add("programs" if _is_program else "operators", _name, partial(_in_float32, _make), cuda=_is_program)
