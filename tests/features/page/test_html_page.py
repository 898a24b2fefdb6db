from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec.structs import replace

from page_parser import Page
from pytest_gpuperf.baseline.store import BaselineStore, Expectations
from pytest_gpuperf.features.page.page import page_pieces
from pytest_gpuperf.features.page.run_section import Section, SourceLinks
from pytest_gpuperf.judge.result import Finding, Status, TestResult
from pytest_gpuperf.records import Autotuning, GpuInfo, KernelProfile, Measurement, Profile, Run, TestRecord
from pytest_gpuperf.report.rows import Summary
from report_examples import METRICS, compared, profile, result, timing
from run_builders import run

GITHUB = SourceLinks("https://github.com/o/r", "perf")
HOSTILE = st.one_of(
    st.text(min_size=1, max_size=20).filter(lambda text: text[0] not in "\n:"),  # no row, or another test
    st.sampled_from(
        [
            "</script><script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            '" onmouseover="alert(1)',
            "' autofocus onfocus='alert(1)",
            "<!--",
            "]]>",
            "javascript:alert(1)",
            "&lt;b&gt;",
            "\u2028</title>\x00\x1b[31m",
        ]
    ),
)


def section(*results: TestResult, kept: Run | None = None, **others: Any) -> Section:
    kept = kept or run()
    store = BaselineStore(Path("nowhere"))
    summary = Summary(results, kept.environment, None)
    return Section(kept, summary, Expectations(store, kept.environment), **others)


def page(*sections: Section) -> str:
    return b"".join(page_pieces(sections)).decode()


def test_table_is_in_the_page_without_scripts() -> None:
    slow = result(
        "t/test_a.py::test_slow", Status.REGRESSED, change_pct=4.2, line="time_us 5.5 is 4.2 % slower"
    )
    shown = Page(page(section(result("t/test_a.py::test_square"), slow)))
    words = shown.text.split()
    assert words.index("test_slow") < words.index("test_square")
    assert "time_us 5.5 is 4.2 % slower" in shown.text
    assert {"regressed", "pass", "+4.2", "±0.5", "5.30"} <= set(words)


def test_failure_by_strict_is_one_and_says_why() -> None:
    undecided = result(status=Status.INCONCLUSIVE, line="4.2 % slower, not settled")
    strict = replace(undecided, strict=True)
    assert "(failed)" not in page(section(undecided))
    shown = Page(page(section(strict)))
    assert "Performance of GPU kernels: 1 inconclusive (failed)" in shown.text
    assert "4.2 % slower, not settled; not decided, which fails under --gpuperf-strict" in shown.text
    assert ("tbody", {"id": "t0", "class": "bad"}) in shown.tags
    assert "inconclusive (failed)" in Page(shown.data[0]).text


def test_error_of_the_run_is_in_title_and_not_folded() -> None:
    plain = section(result())
    summary = dataclasses.replace(plain.summary, notices=["error: there is no baseline for b200", "a fact"])
    source = page(dataclasses.replace(plain, summary=summary))
    assert "<title>Performance of GPU kernels: 1 pass, 1 error</title>" in source
    assert '<div class="finding bad"><span class="verdict">error</span> there is no baseline' in source
    assert "<summary>1 notice</summary>" in source


def test_same_line_of_two_findings_is_shown_once() -> None:
    found = tuple(Finding(Status.PASS, line, details=("now runs other",)) for line in ("first", "second"))
    twice = replace(result(), findings=found)
    assert page_data(twice).count("now runs other") == 1


def page_data(shown: TestResult) -> str:
    return Page(page(section(shown))).data[0]


def test_rows_of_a_column_without_values_are_left_out() -> None:
    bare = result(measurements={"main": Measurement(timing=timing())}, change_pct=None)
    titles = re.findall(r'<th scope="col"[^>]*>([^<]+)<', page(section(bare)))
    assert titles == ["test", "verdict", "time"]


def test_test_without_measurements_has_a_row() -> None:
    shown = Page(page(section(result(status=Status.INVALID, measurements={}, line="no kernel"))))
    assert "test_square</code>" in shown.data[0]
    assert "no kernel" in shown.text


def test_details_have_findings_facts_and_explanation() -> None:
    measured = Measurement(timing=timing(bytes=10**6), profile=profile("square_kernel"))
    checked = result(measurements={"main": measured}, status=Status.LIMIT, line="memory_throughput 78 < 80")
    (markup,) = Page(page(section(checked, links=GITHUB))).data
    details = Page(markup)
    assert details.links == ["https://github.com/o/r/blob/c0ffee1234/perf/suites/test_square.py"]
    for text in (
        "memory_throughput 78 < 80",
        "77/100 %",
        f"{len(METRICS)} values of 1 launch, by ncu, L2 flushed",
        "square_kernel",
    ):
        assert text in details.text


def test_policy_allows_only_the_style_and_script_of_the_page() -> None:
    shown = page(section(result()))
    (style,) = re.findall(r"<style>(.*?)</style>", shown, re.DOTALL)
    parsed = Page(shown)
    for content in (style, *parsed.scripts[""]):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in parsed.policy
    assert parsed.policy.startswith("default-src 'none'; ")
    assert parsed.policy.count("sha256-") == 2


def hostile_page(name: str) -> str:
    kernels = (KernelProfile(name=name, demangled=name, metrics=METRICS),)
    measured = Measurement(
        timing=replace(timing(), autotuning=Autotuning(chosen=(name,))),
        profile=Profile(kernels=kernels, combined=METRICS, chip=name, regex=name),
    )
    record = TestRecord(nodeid=f"t/test_a.py::{name}", measurements={"main": measured, name + "_": measured})
    finding = Finding(Status.LIMIT, name, details=(name,))
    times = {"main": compared(1.0)}
    kept = run(gpu=GpuInfo(name=name, slug="nvidia-h200"))
    kept = replace(kept, environment=replace(kept.environment, commit=name))
    found = section(TestResult(record, Status.LIMIT, (finding,), times), kept=kept, links=GITHUB)
    found.summary.__dict__["notices"] = [name]
    return page(found)


PLAIN = Page(hostile_page("square"))


@given(HOSTILE)
@settings(max_examples=30, deadline=None)
def test_no_name_of_a_run_becomes_markup(name: str) -> None:
    shown = Page(hostile_page(name))
    assert shown.shape == PLAIN.shape
    assert shown.scripts[""] == PLAIN.scripts[""]
    assert all(link.startswith("https://github.com/o/r/") for link in shown.links)
    for row, plain in zip(shown.data, PLAIN.data, strict=True):
        assert Page(row).shape == Page(plain).shape
        assert all(link.startswith("https://github.com/o/r/") for link in Page(row).links)


@pytest.mark.parametrize("repository", ["", "javascript:alert(1)//", "data:text/html,x"])
def test_address_that_is_no_web_site_is_not_a_link(repository: str) -> None:
    shown = Page(page(section(result(), links=SourceLinks(repository))))
    assert shown.links == []


def test_models_of_gpu_have_sections_and_stand_next_to_each_other() -> None:
    other = run(gpu=GpuInfo(name="NVIDIA B200", slug="nvidia-b200"), id="20261121-000000-0000")
    fast = {"main": Measurement(timing=timing(time_us=4.0))}
    good = result("t/test_a.py::test_a")
    slow = result("t/test_a.py::test_a", Status.REGRESSED, measurements=fast)
    alone = result("t/test_a.py::test_b", Status.LIMIT)
    source = page(section(good), section(slow, alone, kept=other))
    assert re.findall(r"<h2[^>]*>([^<]+)", source) == ["NVIDIA H200", "NVIDIA B200"]
    cells = re.findall(r'<a href="#t\d">([^<]+)</a></td>', source.replace("&nbsp;", " "))
    assert cells == snapshot(
        ["pass 5.30 µs +0.3 ±0.5 %", "regressed 4.00 µs +0.3 ±0.5 %", "limit 5.30 µs +0.3 ±0.5 %"]
    )
    shown = Page(source)
    assert sorted(shown.links) == ["#s0", "#s1", "#t0", "#t1", "#t2"]
    assert "not in the run" in shown.text
