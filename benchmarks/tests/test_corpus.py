"""The corpus of public files, and the reader that the package is compared with."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from benchmarks.corpus import __main__ as corpus

if TYPE_CHECKING:
    from benchmarks.corpus.independent import Values

CAPTURES = Path(__file__).parents[2] / "tests" / "data" / "captures"
WILD = Path(__file__).parents[2] / "tests" / "wild"
KNOWN = corpus.CorpusFile(repository="o/r", commit="c", path="p", licence="", sha256="")


def test_every_file_of_the_corpus_can_be_found_again() -> None:
    files = msgspec.json.decode(corpus.FILE.read_bytes(), type=list[corpus.CorpusFile])
    assert len(files) >= 60
    assert len({one.repository for one in files}) >= 25
    assert all(re.fullmatch("[0-9a-f]{40}", one.commit) for one in files)
    assert all(re.fullmatch("[0-9a-f]{64}", one.sha256) for one in files)


@pytest.mark.parametrize("name", ["torch_mixed_raw_wide", "filtered_long_with_warnings"])
def test_both_readers_agree(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv").write_bytes(gzip.decompress((CAPTURES / f"{name}.csv.gz").read_bytes()))
    found, lines = corpus.compare(KNOWN, tmp_path / "a.csv")
    assert (found.differences, lines) == (0, [])
    assert found.values > 10


def test_wrong_value_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    read = corpus.package_values

    def wrong(path: Path) -> Values:
        return {**read(path), "GPU 0: span_us": 3.5}

    monkeypatch.setattr(corpus, "package_values", wrong)
    found, [line] = corpus.compare(KNOWN, WILD / "epoch_microseconds.json")
    assert found.differences == 1
    assert line.startswith("GPU 0: span_us: 3.3")
