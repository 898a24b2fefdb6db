"""Find libcupti and call it."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Iterator


class CuptiError(GpuperfError):
    """CUPTI is missing, or refuses."""


class Cupti:
    """The functions of one libcupti, with their results checked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))

    def call(self, function: str, *arguments: object) -> None:
        """Call a function.

        Raises:
            CuptiError: It returns anything but CUPTI_SUCCESS.
        """
        result = getattr(self.library, function)(*arguments)
        if result:
            text = ctypes.c_char_p()
            self.library.cuptiGetResultString(result, ctypes.byref(text))
            said = (text.value or b"").decode(errors="replace")
            raise CuptiError(f"CUPTI's {function} failed: {said or result}")


@cache
def cupti() -> Cupti:
    """The libcupti that this process already uses, else torch's or the toolkit's.

    Two copies in one process would not know of each other, so a loaded one comes first.

    Raises:
        CuptiError: There is none.
    """
    for path in _candidates():
        if path.is_file():
            return Cupti(path)
    raise CuptiError(
        "libcupti was not found",
        expected="it beside torch (nvidia-cuda-cupti) or in the CUDA toolkit",
        next_step="pip install nvidia-cuda-cupti",
    )


def _candidates() -> Iterator[Path]:
    maps = Path("/proc/self/maps")
    if maps.exists():
        for line in maps.read_text().splitlines():
            if "libcupti.so" in line:
                yield Path(line.split(maxsplit=5)[-1])
    for folder in map(Path, sys.path):
        yield from sorted((folder / "nvidia").glob("*/lib/libcupti.so.*"))
    for toolkit in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if toolkit:
            for part in ("extras/CUPTI/lib64", "lib64"):
                yield from sorted((Path(toolkit) / part).glob("libcupti.so.*"))
