from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.features.static.compilation import compile_static
from static_builders import fake_compiler

if TYPE_CHECKING:
    from pytest_gpuperf.records import StaticKernel


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return fake_compiler(monkeypatch)


@pytest.fixture
def compiled() -> Any:
    """Return a function that compiles a source for one or more architectures."""

    def compile_for(source: Any, archs: Any = ("sm_90",), **given: Any) -> dict[str, StaticKernel]:
        known = {name: given.pop(name, None) for name in ("signature", "args", "constexprs")}
        return compile_static(source, archs, **known, options=given)

    return compile_for
