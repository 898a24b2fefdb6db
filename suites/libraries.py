"""Modules of other people's packages, which a test may lack."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

if TYPE_CHECKING:
    from pytest_gpuperf import Gpuperf


def library(gpuperf: Gpuperf, module: str) -> Any:
    """Import a module; skip the test if its package is missing.

    A replay calls no kernel, so it needs no package: it gets a stand-in.
    """
    if gpuperf.device.type == "meta":
        return MagicMock(name=module)
    return pytest.importorskip(module, exc_type=ImportError)


def without_autotuning(module: Any) -> Any:
    """Give each autotuner in the package of a module its first configuration, and return the module.

    An autotuner picks by times that it takes itself, so it may pick another configuration on each machine.
    """
    if not isinstance(module, ModuleType):
        return module
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import KernelInterface

    package = module.__name__.partition(".")[0]
    names = [name for name in sys.modules if name.partition(".")[0] == package]
    for kernel in [kernel for name in names for kernel in vars(sys.modules[name]).values()]:
        while isinstance(kernel, KernelInterface):
            if isinstance(kernel, Autotuner):
                kernel.configs = kernel.configs[:1]
            kernel = getattr(kernel, "fn", None)
    return module
