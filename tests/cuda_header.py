"""Numbers of the CUDA driver's API by name, from the `cuda.h` that Triton brings."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest


@cache
def cuda_numbers(header: str = "cuda.h") -> dict[str, int]:
    """Return the enumerators of a header, also by their other names."""
    found = find_spec("triton")
    if found is None or found.origin is None:
        pytest.skip("needs Triton's headers of CUDA")
    text = (Path(found.origin).parent / "backends/nvidia/include" / header).read_text()
    numbers = {
        name: int(value, 0) for name, value in re.findall(r"\b(CU\w+)\s*=\s*(0x[0-9a-fA-F]+|\d+)\b", text)
    }
    for name, other in re.findall(r"#define\s+(CU\w+)\s+(CU\w+)\s", text):
        if other in numbers:
            numbers[name] = numbers[other]
    return numbers
