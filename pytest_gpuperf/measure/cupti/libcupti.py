"""libcupti: find its copies, load one, call it, and explain its refusals."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.ncu_failures import BUSY_ADVICE, PERMISSION_ADVICE

if TYPE_CHECKING:
    from pytest_gpuperf.measure.cupti.param_structs import AnyParams

WHEELS = "torch's CUDA wheels"
TOOLKIT = "the CUDA toolkit"
TRITON = "Triton's wheel"
_OF_TOOLKIT = ("extras/CUPTI/lib64", "lib64", "lib")

_OTHER_CLIENT = (
    "another profiler holds CUPTI in this process",
    "run without it: torch.profiler, proton, ncu, nsys, compute-sanitizer or cuda-gdb",
)
_REFUSED = "a later driver or its host may allow it; --gpuperf-counters=off only times"

_EXPLANATIONS: dict[int, tuple[str, str]] = {
    8: ("there is no memory left for CUPTI's replays", "profile a smaller shape"),
    15: (
        "CUPTI finds no driver that fits it, or not its own libnvperf libraries",
        "install the nvidia-cuda-cupti of torch's CUDA version, with no other on LD_LIBRARY_PATH",
    ),
    23: _OTHER_CLIENT,
    26: ("another process holds the GPU's counters (DCGM, ncu or a CUPTI client)", BUSY_ADVICE),
    27: ("CUPTI cannot profile on this GPU or system", ""),
    33: ("CUPTI does not profile this virtual GPU", _REFUSED),
    35: ("the driver denies hardware counters to this user", PERMISSION_ADVICE),
    36: _OTHER_CLIENT,
    38: ("CUPTI cannot profile on this GPU", "a GPU of compute capability 7.5 or later can be profiled"),
    39: _OTHER_CLIENT,
    40: ("the hypervisor denies hardware counters to this virtual GPU", "allow profiling for it on the host"),
    41: ("CUPTI does not profile in this mode of confidential computing", _REFUSED),
    42: ("CUPTI does not profile this mining processor", _REFUSED),
    43: ("CUPTI does not profile this slice of a GPU (MIG)", _REFUSED),
    44: ("CUPTI does not profile this SLI group", _REFUSED),
    45: ("CUPTI does not profile in this WSL", _REFUSED),
    46: ("this CUPTI is older than the GPU and does not know it", "install a torch for a later CUDA"),
}
"""Cause and advice by `CUptiResult` (`cupti_result.h`); other results are shown by CUPTI's own name."""


class CuptiError(GpuperfError):
    """CUPTI is missing, or refuses.

    Args:
        found: The state that was found.
        expected: The state that was expected instead.
        next_step: The next step for the user.
        code: The result of CUPTI; 0 if it was not called.
    """

    def __init__(self, found: str, *, expected: str = "", next_step: str = "", code: int = 0) -> None:
        super().__init__(found, expected=expected, next_step=next_step)
        self.code = code

    @property
    def is_unexplained(self) -> bool:
        """True for a result of CUPTI without a known cause."""
        return bool(self.code) and self.code not in _EXPLANATIONS


class Cupti:
    """The functions of one libcupti, with checked results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.functions = ctypes.CDLL(str(path))

    def call(self, function: str, *arguments: object) -> None:
        """Call a function.

        Raises:
            CuptiError: The result is not CUPTI_SUCCESS, or this version lacks the function.
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
            CuptiError: As `call`.
        """
        params.structSize = params.size()
        self.call(function, ctypes.byref(params))
        return params

    def load_neighbours(self, *names: str) -> None:
        """Load libraries from the folder of this one, before CUPTI looks for them itself.

        The search path of the system may have another version of them, or none.
        """
        for name in names:
            path = self.path.with_name(name)
            if path.is_file():
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def refusal(function: str, code: int, said: str = "") -> CuptiError:
    """Make the error for a failed call.

    Args:
        function: Name of the function.
        code: Its result, not CUPTI_SUCCESS.
        said: CUPTI's own name for the result.
    """
    cause, next_step = _EXPLANATIONS.get(code, ("", ""))
    failed = f"CUPTI's {function} failed: {said or code}"
    return CuptiError(f"{cause} ({failed})" if cause else failed, next_step=next_step, code=code)


@cache
def cupti() -> Cupti:
    """Load the libcupti that this process already uses, else a copy of torch or of the CUDA toolkit.

    Two copies in one process would not know of each other, so a loaded one comes first. That of Triton, which
    proton loads, comes after torch's.

    Raises:
        CuptiError: There is none.
    """
    loaded = sorted(_loaded(), key=lambda path: "triton" in path.parts)
    for path in (*loaded, *(path for source, path in copies() if source != TRITON)):
        return Cupti(path)
    raise CuptiError(
        "libcupti was not found",
        expected="a copy next to torch (nvidia-cuda-cupti) or in the CUDA toolkit",
        next_step="pip install nvidia-cuda-cupti",
    )


def _loaded() -> list[Path]:
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else ()
    paths = (Path(line.split(maxsplit=5)[-1]) for line in lines if "libcupti.so" in line)
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def copies() -> list[tuple[str, Path]]:
    """List the copies of this environment in the order to use them: the owner and the path of each."""
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    toolkits = [Path(root) / below for root in filter(None, roots) for below in _OF_TOOLKIT]
    # nvidia/cu13/lib from CUDA 13 on, nvidia/cuda_cupti/lib before.
    folders = {
        WHEELS: sorted(_package_folders("nvidia", "*/lib"), key=lambda one: one.parts[-2], reverse=True),
        TOOLKIT: toolkits,
        TRITON: _package_folders("triton", "backends/nvidia/lib/cupti*"),
    }
    return [
        (source, path)
        for source, some in folders.items()
        for folder in some
        # The longest name has the whole version; the others are links to it.
        for path in sorted(folder.glob("libcupti.so*"), reverse=True)[:1]
    ]


def _package_folders(name: str, below: str) -> list[Path]:
    """List folders of a package without importing it; several distributions can share a package."""
    spec = importlib.util.find_spec(name)
    roots = (spec and spec.submodule_search_locations) or ()
    return [folder for root in roots for folder in sorted(Path(root).glob(below))]
