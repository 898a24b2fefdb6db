from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot
from markdown_it import MarkdownIt

from pytest_gpuperf.features.github.step_summary import summary_markdown, write_markdown
from pytest_gpuperf.judge.result import Status, TestResult
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.report.forms import as_markdown
from pytest_gpuperf.report.rows import Summary
from pytest_gpuperf.report.table import Column, Report, Screen, Table
from report_examples import ENVIRONMENT, RECORDED, result, timing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MIB = 1024 * 1024


def markdown_of(results: Sequence[TestResult], *, replayed: bool = False, updated: bool = False) -> str:
    return summary_markdown(Summary(results, ENVIRONMENT, RECORDED if replayed else None, updated=updated))


def test_summary_has_a_headline_rows_and_failures() -> None:
    timed = {"main": Measurement(timing=timing())}
    slow = result("suites/test_square.py::test_slow", Status.REGRESSED, line="7 % slower", measurements=timed)
    results = [result(replayed=True), result(status=Status.NEW, change_pct=None), slow]
    assert markdown_of(results, replayed=True) == snapshot("""\
## gpuperf: 1 regressed, 1 new, 1 pass

replayed from NVIDIA H200, commit abc1234, 2026-11-20

driver 580.95.05, torch 2.11.0+cu128, triton 3.6.0, ncu 2025.3.1.0

| test | time | SOL | occupancy | top stall | change | verdict |
| --- | ---: | ---: | ---: | --- | ---: | --- |
| `test_slow` | 5.30 µs ±0.2 % |  |  |  | +0.3 ±0.5 % | ❌ regressed |
| `test_square` | 5.30 µs ±0.2 % | mem 78 % | 77/100 % | long_scoreboard 62 % | new | 🆕 new |
| `test_square` | 5.30 µs ±0.2 % | mem 78 % | 77/100 % | long_scoreboard 62 % | +0.3 ±0.5 % | ✅ pass |

- 1 test without a baseline: gpuperf baseline accept RUN makes one (-v names RUN)

<details><summary>1 failed</summary>

<pre><b>suites/test_square.py::test_slow</b>
gpuperf: 7 % slower</pre>

</details>
""")
    assert "<details>" not in markdown_of([result()])


@pytest.mark.parametrize("name", ["https://evil.example/x", "HTTP://evil.example", "www.evil.example"])
def test_text_like_an_address_is_no_link(name: str) -> None:
    table = Table([Column("test", [name], "name")], [name], [name])
    text = as_markdown.render(Report([table], []), Screen(80))
    links = [token for block in MarkdownIt("gfm-like").parse(text) for token in block.children or ()]
    assert "link_open" not in [token.type for token in links]
    assert not re.search(r"://|www\.", text, re.IGNORECASE)


def test_message_cannot_leave_its_block() -> None:
    text = markdown_of([result(status=Status.WRONG, line="</pre></details><h1>x")])
    assert text.count("</pre>") == 1
    assert "<h1>" not in text


def test_passes_are_dropped_first_above_githubs_limit() -> None:
    results = [
        result(
            f"t.py::test_{'x' * 60}[{number}]",
            Status.REGRESSED if number % 5 == 0 else Status.PASS,
            line="y" * 300,
        )
        for number in range(10_000)
    ]
    start = time.process_time()
    text = markdown_of(results)
    assert time.process_time() - start < 2
    assert len(text.encode()) < MIB
    assert text.count("❌ regressed") == 2000
    assert "Left out for lack of room: " in text
    [left] = [line for line in text.splitlines() if line.endswith("The run file has them all.")]
    assert "pass" in left
    assert "regressed" not in left


def test_long_message_does_not_displace_others() -> None:
    results = [
        result("t.py::test_long", Status.WRONG, line="x" * MIB),
        result("t.py::test_short", Status.WRONG, line="short"),
    ]
    text = markdown_of(results)
    assert len(text.encode()) < MIB
    assert "gpuperf: short" in text


def test_summary_is_appended_to_the_file_of_github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "x.md"))
    for _ in range(2):
        write_markdown(Summary([result()], ENVIRONMENT, None))
    assert (tmp_path / "x.md").read_text() == 2 * markdown_of([result()])
