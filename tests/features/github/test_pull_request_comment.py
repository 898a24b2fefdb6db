"""The comment on a pull request, and texts in run files that look like markup."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from markdown_it import MarkdownIt
from msgspec import structs

from command_line import gpuperf
from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.baseline.run_verdicts import judge_run
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.features.github.pull_request_comment import (
    MOST_BYTES,
    JudgedRun,
    RequestFacts,
    refused_comment,
    request_comment,
)
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records import Correctness, Environment, GpuInfo, Run, Toolchain
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.records.run_store import encode_run
from report_examples import result
from run_builders import H200, NODEID, in_turn, measured, one_test, profile, record, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markdown_it.token import Token

    from pytest_gpuperf.judge.result import TestResult

B200 = GpuInfo(name="NVIDIA B200", slug="nvidia-b200", uuid="GPU-2")
URL = "https://o/r/7"
EMPTY = Path("/nonexistent")
SENTINEL = "zq"
"""In every text from a run: outside code it must not be seen."""
PIECES = (
    *("`", "``", "```", "\n```\n", "|", "\\|", "\\", "\n", "\r\n", " ", "  ", "\u2028", "\x00", "\t", "---"),
    *("::error::", "\n::error file=a.py::x", "##[error]", "::add-mask::", "@user", "@org/team", "#123"),
    *("<img src=x>", "</details>", "<!--", "-->", "<script>", "</pre>", "</code>", "&lt;", "&#64;", "$x$"),
    *("![x](https://evil.example/x.png)", "[a](https://evil.example)", "www.evil.example", "a@evil.example"),
    *("https://evil.example", "[x]: https://evil.example", "<https://evil.example>", "- [ ] ", "# ", "> "),
    *("\x1b[31m", "\x1b]8;;https://evil.example\x07", "\u202e", "\u2066", "\u200b", "e\u0301", "é", "🎉"),
    *("1. ", ":tada:", "~~", "**", "__", "$(id)", "${{ secrets.X }}"),
)
NASTY = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=8).map(
    lambda parts: f"{SENTINEL}{''.join(parts)}{SENTINEL}"
)
PARSER = MarkdownIt("gfm-like")
FOLDS = re.compile(r"<details><summary>(\d[\d,]* failed|All [\d,]+ times?)</summary>\n?|</details>\n?")


def judged(
    *results: TestResult, gpu: GpuInfo = H200, missing: Sequence[str] = (), known: bool = True
) -> JudgedRun:
    return JudgedRun(run(*(one.record for one in results), gpu=gpu), results, missing, known)


def comment(*runs: JudgedRun, notes: Sequence[str] = ()) -> str:
    facts = RequestFacts("gpuperf", "https://o/r/8", URL, "failure")
    return request_comment(runs, facts, notes)


def tokens(markdown: str) -> Iterator[Token]:
    for token in PARSER.parse(markdown):
        yield token
        yield from token.children or ()


def codes_in(markdown: str) -> set[str]:
    """Return the content of all code, after checking that nothing else comes from a run."""
    found = set()
    for token in tokens(markdown):
        if token.type in ("code_inline", "fence"):
            found.add(token.content)
        elif token.type == "link_open":
            assert str(token.attrs["href"]).startswith("https://o/r/")
        elif token.type == "html_block":
            assert FOLDS.fullmatch(token.content) or token.content == "<!-- gpuperf: gpuperf -->\n"
        elif token.type == "text":
            assert not re.search(rf"{SENTINEL}|[@#<>]|://|www\.", token.content), token.content
        assert token.type not in ("html_inline", "image", "code_block")
    return found


def test_table_has_a_column_for_each_gpu() -> None:
    slow = result(
        "t/test_a.py::test_slow", Status.REGRESSED, line="7 % slower", measurements={"main": measured()}
    )
    passed = result("t/test_a.py::test_slow", measurements={"main": measured()})
    other = result("t/test_a.py::test_other", measurements={"main": measured()})
    assert comment(
        judged(slow, other), judged(passed, other, gpu=B200, missing=["t/test_b.py::test_c"])
    ) == snapshot("""\
<!-- gpuperf: gpuperf -->

## ❌ gpuperf: 1 regressed, 3 pass

Judged without a GPU, by the baselines of the base branch and the limits in this pull request's tests.
Assertions count only in the [measuring job](https://o/r/7), which ended with **failure**.
[Open the report](https://o/r/8), an artifact of the judging job.

| test | `NVIDIA H200` | `NVIDIA B200` |
| --- | --- | --- |
| `test_slow` | ❌ regressed +0.3 ±0.5 % | ✅ pass +0.3 ±0.5 % |

- 1 test with a baseline not measured on `NVIDIA B200`: `t/test_b.py::test_c`

<details><summary>1 failed</summary>

`t/test_a.py::test_slow` on `NVIDIA H200`

```text
gpuperf: 7 % slower
```

</details>

<details><summary>All 4 times</summary>

`NVIDIA H200, triton 3.6, commit c0ffee1`

| test | time | change | verdict |
| --- | ---: | ---: | --- |
| `test_slow` | 5.30 µs ±0.1 % | +0.3 ±0.5 % | ❌ regressed |
| `test_other` | 5.30 µs ±0.1 % | +0.3 ±0.5 % | ✅ pass |

`NVIDIA B200, triton 3.6, commit c0ffee1`

| test | time | change | verdict |
| --- | ---: | ---: | --- |
| `test_slow` | 5.30 µs ±0.1 % | +0.3 ±0.5 % | ✅ pass |
| `test_other` | 5.30 µs ±0.1 % | +0.3 ±0.5 % | ✅ pass |

</details>
""")


def test_comment_without_changes_says_so() -> None:
    text = request_comment([judged(result())], RequestFacts())
    assert "## ✅ gpuperf: 1 pass\n" in text
    assert "No test changed." in text


@pytest.mark.parametrize("why", ["interrupted", "missing", "empty", "undecided"])
def test_head_of_a_comment_is_green_only_if_all_is_judged(why: str) -> None:
    ended = result(status=Status.INCONCLUSIVE if why == "undecided" else Status.PASS)
    one = judged(ended, missing=["t.py::gone"] if why == "missing" else [])
    if why == "interrupted":
        one = dataclasses.replace(one, run=structs.replace(one.run, complete=False))

    runs = [one, judged(gpu=B200)] if why == "empty" else [one]
    assert "\n\n## ❔ gpuperf: 1 " in request_comment(runs, RequestFacts())


def test_head_says_that_no_time_was_compared() -> None:
    text = request_comment(
        [judged(result("t.py::a", change_pct=None), result("t.py::b", change_pct=None))], RequestFacts()
    )
    assert "## ❔ gpuperf: 2 pass, no time was compared\n" in text


def test_failed_job_is_never_shown_as_passed() -> None:
    assert "## ❌ gpuperf: 1 pass" in request_comment([judged(result())], RequestFacts(conclusion="failure"))


def test_gpu_without_baselines_does_not_fill_the_table() -> None:
    text = comment(judged(result(), gpu=B200), judged(result(status=Status.NEW), known=False))
    assert "No test changed." in text
    assert "- no test has a baseline on `NVIDIA H200`" in text


@pytest.mark.parametrize("status", [Status.REGRESSED, Status.PASS])
def test_large_runs_fit_into_a_comment(status: Status) -> None:
    names = [f"t/test_a.py::test_{'🎉' * 60}[{number}]" for number in range(1000)]
    results = [result(name, status, line="y" * 5000, measurements={"main": measured()}) for name in names]
    text = comment(judged(*results, missing=names), *[judged(*results[:9], gpu=B200)] * 9, notes=names)
    assert MOST_BYTES * 0.9 < len(text.encode()) <= MOST_BYTES
    counted = {int(n.replace(",", "")) for n in re.findall(r"Left out for lack of room: ([\d,]+) time", text)}
    shown = len(re.findall(r"^\| .*µs ±", text, re.MULTILINE))
    assert counted == {1000 + 5 * 9 - shown}
    assert codes_in(text)


@settings(max_examples=60, deadline=None)
@given(NASTY, NASTY, NASTY, NASTY)
def test_texts_of_a_run_stay_in_code(name: str, label: str, message: str, gpu: str) -> None:
    wrong = structs.replace(measured(), correctness=Correctness(passed=False, failure=message))
    nodeid = f"t.py::{name}"
    stated = structs.replace(record("t.py::b"), limits=(message[:300],))
    bad = structs.replace(one_test(), tests=(record(nodeid, message, **{label: wrong}), stated))
    tools = Toolchain(driver=message, torch=gpu, triton=name)
    info = structs.replace(H200, name=gpu)
    bad = structs.replace(bad, environment=Environment(gpu=info, toolchain=tools, commit=message))
    results = judge_run(bad, BaselineStore(EMPTY))
    text = request_comment([JudgedRun(bad, results, [name])], RequestFacts(job_url=URL), [message])
    codes = codes_in(text)
    assert {printable(nodeid), printable(gpu), printable(name), printable(message)} <= codes
    assert len(text.encode()) <= MOST_BYTES
    assert codes_in(refused_comment(message, RequestFacts()))


@settings(max_examples=30, deadline=None)
@given(NASTY, NASTY)
def test_counters_and_remarks_stay_in_code(name: str, text: str) -> None:
    counted = structs.replace(
        measured(), profile=profile({f"stall.{name}": 90.0, "compiler": text}, unavailable=text)
    )
    bad = structs.replace(one_test(), tests=(record("t.py::t", main=counted),), counters_unavailable=text)
    results = judge_run(bad, BaselineStore(EMPTY))
    assert codes_in(request_comment([JudgedRun(bad, results)], RequestFacts()))


@pytest.fixture
def files(project: Path) -> Path:
    """Make a project with the baseline of one test."""
    accept(one_test(), BaselineStore(project / "baselines"), "all", 0.0)
    return project


def write(project: Path, found: Run) -> str:
    (project / "run.json").write_bytes(encode_run(found))
    return "run.json"


def test_command_judges_by_the_baselines(files: Path) -> None:
    settled = in_turn(measured(9.0), 0.5, 0.5, sessions=(one_test().id,))
    slow = write(files, run(record(main=settled)))
    done = gpuperf("comment", slow, "-o", "comment.md", "--job", URL)
    assert (done.exit_code, done.output) == (0, "wrote comment.md (1 test)\n")
    text = (files / "comment.md").read_text(encoding="utf-8")
    assert text.startswith("<!-- gpuperf: gpuperf -->\n\n## ❌ gpuperf: 1 regressed\n")


@pytest.mark.parametrize("failure", ["", "AssertionError"])
def test_slowdowns_that_the_request_accepts_are_listed(files: Path, failure: str) -> None:
    slow = write(files, run(structs.replace(record(main=measured(9.0)), failure=failure)))
    gpuperf("comment", slow, "-o", "comment.md")
    text = (files / "comment.md").read_text(encoding="utf-8")
    said = "1 slowdown that the baselines of this pull request accept on `NVIDIA H200`: "
    assert f"- {said}`{NODEID}` +69.8 %\n" in text


def test_new_label_does_not_hide_the_baseline(files: Path) -> None:
    labelled = write(files, run(record(main=measured(), other=measured())))
    assert gpuperf("comment", labelled, "-o", "comment.md").exit_code == 0
    text = (files / "comment.md").read_text(encoding="utf-8")
    assert "no test has a baseline" not in text
    assert "(other)` | 5.30 µs ±0.1 % | new | 🆕 new |" in text


@pytest.mark.parametrize("partial", [False, True])
def test_missing_tests_are_named_unless_some_were_chosen(files: Path, partial: bool) -> None:
    other = write(files, run(record("suites/test_square.py::test_new", main=measured())))
    gpuperf("comment", other, "-o", "comment.md", *["--partial"] * partial)
    text = (files / "comment.md").read_text(encoding="utf-8")
    assert ("1 test with a baseline not measured on `NVIDIA H200`: `suites/test_square.py" in text) != partial
    assert "1 new" in text


def test_runs_without_tests_are_an_error(files: Path) -> None:
    gpuperf("comment", write(files, run()), "-o", "comment.md", status=2)
    assert "❔ gpuperf: nothing was judged" in (files / "comment.md").read_text(encoding="utf-8")


def test_runs_that_contradict_are_told_in_the_comment(files: Path) -> None:
    other = structs.replace(one_test(), id="20261120-173013-0000")
    (files / "other.json").write_bytes(encode_run(other))
    done = gpuperf("comment", write(files, one_test()), "other.json", "-o", "comment.md", status=2)
    assert "was measured twice" in done.output
    text = (files / "comment.md").read_text(encoding="utf-8")
    assert "nothing was judged" in text
    assert "was measured twice" in text


@pytest.mark.parametrize("name", ["--report", "--job", "--marker", "--conclusion"])
def test_links_and_names_cannot_be_markup(files: Path, name: str) -> None:
    run_file = write(files, one_test())
    gpuperf("comment", run_file, "-o", "comment.md", name, "https://x.y/)<img>--> [a", status=2)
    assert not (files / "comment.md").exists()


@settings(max_examples=25, deadline=None)
@given(NASTY, NASTY)
def test_commands_print_no_workflow_command(name: str, message: str) -> None:
    with TemporaryDirectory() as folder:
        document = json.loads(encode_run(run(record(name, message, main=measured()))))
        document["tests"] *= 2
        twice, path = json.dumps(document).encode(), Path(folder, "run.json")
        for content in (twice, twice + message.encode(), message.encode()):
            path.write_bytes(content)
            for command in ("comment", "merge"):
                done = gpuperf(command, str(path), "-o", f"{folder}/out", "--root", folder, status=2)
                assert not re.search(r"^\s*::|##\[|\x1b", done.output, re.MULTILINE)
