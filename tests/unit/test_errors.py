"""Short forms of exceptions and values."""

from __future__ import annotations

from typing import NoReturn

import pytest

from pytest_gpuperf.errors import show_exception, show_repr


class Hostile(Exception):
    def __str__(self) -> NoReturn:
        raise RuntimeError

    __repr__ = __str__


@pytest.mark.parametrize("text", ["a\x1b[31m", "a\nb", "x" * 10_000])
def test_exception_is_shown_on_a_short_line(text: str) -> None:
    shown = show_exception(ValueError(text))
    assert shown.isprintable()
    assert shown.startswith("ValueError: ")
    assert len(shown) < 250


def test_exception_without_a_text_is_named() -> None:
    assert show_exception(Hostile()) == "Hostile"


@pytest.mark.parametrize("value", [10**5000, Hostile(), "a\x1b\nb", "x" * 10_000], ids=type)
def test_any_value_is_shown_on_a_short_line(value: object) -> None:
    text = show_repr(value)
    assert text.isprintable()
    assert 0 < len(text) <= 41
