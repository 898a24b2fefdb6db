"""README and the documentation say what is so."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

# pytester unloads what a run has imported; Triton can be loaded only once.
import suites.kernels.square  # noqa: F401
from docs.update_output import Block, blocks, pages, present
from pytest_gpuperf.judge.limits import TIME_UNITS
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.plugin.facade import Gpuperf
from pytest_gpuperf.records.runs import newest_recordings
from pytest_gpuperf.records.trace import TRACE_UNITS
from pytest_gpuperf.settings.options import OPTIONS

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)#?(?P<anchor>[^)\s]*)\)")
BLOCKS = blocks(ROOT)


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def fences(text: str, language: str) -> list[str]:
    return [fence["text"] for fence in FENCE.finditer(text) if fence["language"] == language]


def examples() -> list[tuple[str, str]]:
    return [
        (f"{path.stem}-{number}", text)
        for path in pages(ROOT)
        for number, text in enumerate(fences(path.read_text(encoding="utf-8"), "python"))
    ]


@pytest.fixture(scope="module")
def present_bodies() -> dict[str, str]:
    if not list(ROOT.glob("baselines/*/recordings/*.json*")):
        pytest.skip("no recording below baselines/ to show; make one on a GPU (CONTRIBUTING.md)")
    return {key(block): body for block, body in zip(BLOCKS, present(BLOCKS), strict=True)}


def key(block: Block) -> str:
    return f"{block.page}: {block.marker}"


@pytest.mark.parametrize("block", BLOCKS, ids=key)
def test_a_block_shows_the_present_output(block: Block, present_bodies: dict[str, str]) -> None:
    if ".ncu-rep" in block.command:
        pytest.importorskip("ncu_report")
    assert block.body == present_bodies[key(block)], "python -m docs.update_output"


@pytest.mark.parametrize("picture", sorted(ROOT.glob("docs/*.svg")), ids=lambda path: path.name)
def test_a_picture_is_of_the_newest_recording(picture: Path) -> None:
    newest = newest_recordings(ROOT / "baselines")
    assert newest
    assert f">{newest[0].id}: " in picture.read_text(encoding="utf-8"), "the command above it in the page"


def test_every_suite_is_in_the_readme() -> None:
    suites = page("README.md").partition("## The suites\n")[2].partition("\n## ")[0]
    named = re.findall(r"`(test_\w+\.py)`", suites)
    assert sorted(named) == sorted(path.name for path in ROOT.glob("suites/test_*.py"))


def test_markers_tell_the_blocks_of_a_page_apart() -> None:
    assert len(set(map(key, BLOCKS))) == len(BLOCKS)


def test_quick_start_is_two_commands_of_one_line() -> None:
    quick_start = page("README.md").partition("## Quick start\n")[2].partition("\n## ")[0]
    assert [text.count("\n") for text in fences(quick_start, "bash")] == [1, 1]


def test_the_options_are_those_of_the_help(pytester: pytest.Pytester) -> None:
    rows = [row for row in page("README.md").splitlines() if row.startswith("| `--gpuperf")]
    assert len(rows) == len(OPTIONS) + 1
    of_help = " ".join(pytester.runpytest("--help").stdout.str().split())
    for row in rows:
        flag, ini, default, what = (cell.strip().replace("`", "") for cell in row.strip("|").split("|"))
        assert f"{flag} {what} (default: {default}; ini: {ini})" in of_help


def test_every_metric_is_explained() -> None:
    def named(text: str) -> list[str]:
        return [row.split("`")[1] for row in text.splitlines() if row.startswith("- `")]

    assert named(page("docs/reference/limits.md").partition("## Times\n")[2]) == [*TIME_UNITS, *TRACE_UNITS]
    assert named(page("docs/reference/metrics.md").partition("## All metrics\n")[2]) == list(METRICS)


def test_every_verdict_is_explained() -> None:
    verdicts = page("docs/reference/verdicts.md")
    assert re.findall(r"^\| `(\w+)`", verdicts, re.MULTILINE) == [status.value for status in Status]


def test_the_calls_have_the_keywords_of_the_facade() -> None:
    calls = {
        ast.unparse(node.func).removeprefix("gpuperf."): node
        for node in ast.walk(ast.parse(fences(page("docs/reference/gpuperf.md"), "python")[1]))
        if isinstance(node, ast.Call)
    }
    for name in ("check", "warm_up", "time", "profile", "trace", "gpuperf"):
        method = getattr(Gpuperf, "__call__" if name == "gpuperf" else name)
        wanted = {
            parameter.name: repr(parameter.default)
            for parameter in inspect.signature(method).parameters.values()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }
        shown = {keyword.arg: ast.unparse(keyword.value) for keyword in calls[name].keywords if keyword.arg}
        if "expected" in wanted:  # has no default
            wanted["expected"] = "reference"
        assert shown == wanted


def test_every_room_is_on_the_map() -> None:
    package = ROOT / "pytest_gpuperf"
    rooms = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    rooms |= {path.name for path in package.glob("[!_]*.py")}
    assert set(re.findall(r"^\| `([\w./]+)`", page("CONTRIBUTING.md"), re.MULTILINE)) == rooms


@pytest.mark.parametrize("path", pages(ROOT), ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in LINK.finditer(FENCE.sub("", path.read_text(encoding="utf-8"))):
        target = path.parent / link["path"] if link["path"] else path
        assert target.exists(), link[0]
        if link["anchor"]:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert link["anchor"] in anchors, link[0]


def test_the_examples_are_tests(pytester: pytest.Pytester) -> None:
    count = 0
    for name, text in examples():
        compile(text, name, "exec")
        if "def test_" in text:
            pytester.makepyfile(**{f"test_{name.lower().replace('-', '_')}": text})
            count += 1
    assert count > 5
    pytester.syspathinsert(ROOT)
    result = pytester.runpytest("--collect-only", "-q")
    assert result.ret == pytest.ExitCode.OK
    assert len({line.partition("::")[0] for line in result.outlines if "::" in line}) == count
