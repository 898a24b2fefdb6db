"""One libcupti, called with its results checked."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.refusals import EXPLANATIONS
from pytest_gpuperf.measure.cupti.search import TRITON, copies

if TYPE_CHECKING:
    from pytest_gpuperf.measure.cupti.params import AnyParams


class CuptiError(GpuperfError):
    """CUPTI is missing, or refuses.

    Args:
        found: What was found.
        expected: What was expected instead.
        next_step: What to do next.
        code: CUPTI's result; 0 where it was not asked.
    """

    def __init__(self, found: str, *, expected: str = "", next_step: str = "", code: int = 0) -> None:
        super().__init__(found, expected=expected, next_step=next_step)
        self.code = code


class Cupti:
    """The functions of one libcupti, with their results checked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.functions = ctypes.CDLL(str(path))

    def call(self, function: str, *arguments: object) -> None:
        """Call a function.

        Raises:
            CuptiError: It returns anything but CUPTI_SUCCESS, or this version does not have it.
        """
        called = getattr(self.functions, function, None)
        if called is None:
            raise CuptiError(
                f"this CUPTI has no {function}",
                expected="that of CUDA 12.6 or later",
                next_step="install a torch for a later CUDA",
            )
        result = called(*arguments)
        if result:
            text = ctypes.c_char_p()
            self.functions.cuptiGetResultString(result, ctypes.byref(text))
            raise refusal(function, result, (text.value or b"").decode(errors="replace"))

    def ask(self, function: str, params: AnyParams) -> AnyParams:
        """Call a function of the profiling interface, which answers in its parameters.

        Raises:
            CuptiError: As in `call`.
        """
        params.structSize = params.size()
        self.call(function, ctypes.byref(params))
        return params

    def load_beside(self, *names: str) -> None:
        """Load libraries that CUPTI loads itself when first needed, from its own folder.

        The system's search path may have those of another version, or none.
        """
        for name in names:
            path = self.path.with_name(name)
            if path.is_file():
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def refusal(function: str, code: int, said: str = "") -> CuptiError:
    """What a function's result means.

    Args:
        function: Its name.
        code: Its result, which is not CUPTI_SUCCESS.
        said: CUPTI's own name of the result.
    """
    cause, next_step = EXPLANATIONS.get(code, ("", ""))
    failed = f"CUPTI's {function} failed: {said or code}"
    return CuptiError(f"{cause} ({failed})" if cause else failed, next_step=next_step, code=code)


@cache
def cupti() -> Cupti:
    """The libcupti that this process already uses, else torch's or the toolkit's.

    Two copies in one process would not know of each other, so a loaded one comes first.

    Raises:
        CuptiError: There is none.
    """
    for path in (*_loaded(), *(path for source, path in copies() if source != TRITON)):
        return Cupti(path)
    raise CuptiError(
        "libcupti was not found",
        expected="it beside torch (nvidia-cuda-cupti) or in the CUDA toolkit",
        next_step="pip install nvidia-cuda-cupti",
    )


def _loaded() -> list[Path]:
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else ()
    paths = (Path(line.split(maxsplit=5)[-1]) for line in lines if "libcupti.so" in line)
    return [path for path in dict.fromkeys(paths) if path.is_file()]
