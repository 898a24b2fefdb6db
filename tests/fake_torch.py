"""A stand-in for torch in child processes, which would spend two seconds on its import."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace


def install() -> None:
    """Install the stand-in, except in a process that has torch already."""
    if "torch" in sys.modules:
        return
    members = {
        "__version__": "2.13.0",
        "version": SimpleNamespace(cuda="13.0"),
        "device": lambda *_: "cuda",
        "cuda": SimpleNamespace(nvtx=SimpleNamespace()),
    }
    sys.modules["torch"] = torch = ModuleType("torch")
    vars(torch).update(members)
