"""Gzipped input, unpacked up to a limit."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.files import read_unpacked

if TYPE_CHECKING:
    import pytest


@given(content=st.binary(max_size=200), whole=st.booleans())
def test_any_content_is_read_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, whole: bool
) -> None:
    path = tmp_path_factory.mktemp("packed") / "x"
    path.write_bytes(gzip.compress(content) if whole else b"\x1f\x8b" + content)
    try:
        read = read_unpacked(path, "text")
    except GpuperfError as error:
        assert not whole
        assert "cannot be read" in str(error)  # noqa: PT017
    else:
        assert read == content
