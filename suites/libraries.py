"""Modules of other people's packages, which a test may lack."""

from __future__ import annotations

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
