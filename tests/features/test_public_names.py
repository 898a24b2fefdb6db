"""The names of the package."""

from __future__ import annotations


def test_every_public_name_can_be_imported() -> None:
    import pytest_gpuperf

    for name in pytest_gpuperf.__all__:
        assert getattr(pytest_gpuperf, name) is not None
