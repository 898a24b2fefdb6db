"""Numbers of the CUDA driver's API by name, from the `cuda.h` that Triton brings."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

_COMMENT = re.compile(r"/\*(?s:.*?)\*/|//.*")
_ENUMERATION = re.compile(r"\benum\b[^{;]*\{([^}]*)\}")
_ENUMERATOR = re.compile(r"\b(CU\w+)\s*(?:=\s*(\w+)\s*(?:<<\s*(\d+))?)?")


@cache
def cuda_numbers(header: str = "cuda.h") -> dict[str, int]:
    """Return the enumerators of a header, also by their other names."""
    found = find_spec("triton")
    if found is None or found.origin is None:
        pytest.skip("needs Triton's headers of CUDA")
    text = (Path(found.origin).parent / "backends/nvidia/include" / header).read_text()
    numbers: dict[str, int] = {}
    for enumerators in _ENUMERATION.findall(_COMMENT.sub("", text)):
        number = -1
        for name, given, shift in _ENUMERATOR.findall(enumerators):
            given = given.rstrip("uU") or str(number + 1)
            if not given.isalnum() and given not in numbers:
                break  # an expression of macros, of which no test asks
            number = numbers[given] if given in numbers else int(given, 0) << int(shift or 0)
            numbers[name] = number
    for name, other in re.findall(r"#define\s+(CU\w+)\s+(CU\w+)\s", text):
        if other in numbers:
            numbers[name] = numbers[other]
    return numbers
