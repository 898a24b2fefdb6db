"""Additions of features to the core."""

from __future__ import annotations

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.registry import instrument, registry


def test_deleted_instrument_is_an_error_with_a_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry(), "instruments", {"trace": "json"})
    assert instrument("trace").__name__ == "json"
    with pytest.raises(GpuperfError, match=r"no feature `static`; expected .*features/static; .*pip install"):
        instrument("static")
