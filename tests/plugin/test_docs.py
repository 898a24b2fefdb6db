"""README, CONTRIBUTING and the documentation agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

import pytest_gpuperf

# pytester unloads the imports of a run, and Triton can be loaded only once.
import suites.kernels.square  # noqa: F401
from docs.metric_lists import with_lists
from docs.states import FIRST_TEST_CODE
from docs.update_output import Block, blocks, contents, pages, with_installs
from pytest_gpuperf.cli import commands, main
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.records.run_store import newest_recordings
from pytest_gpuperf.records.value_names import VALUES
from pytest_gpuperf.settings.options import all_options
from pytest_gpuperf.statistics.thresholds import LEVEL

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pytest_gpuperf"
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)#?(?P<anchor>[^)\s]*)\)")
BLOCKS = blocks(ROOT)
NEEDS_A_GPU = ("fuzz", "ranks", "static")
"""Guides whose examples launch or compile Triton kernels, or start a process for each GPU."""
GUIDES = [
    path
    for path in sorted((ROOT / "docs/how-to").glob("*.md"))
    if "def test_" in path.read_text(encoding="utf-8") and path.stem not in NEEDS_A_GPU
]
ON_CPU = """
import contextlib, types
from unittest.mock import MagicMock

import pytest
import torch
from torch.utils import cpp_extension

from pytest_gpuperf.measure import correctness
from pytest_gpuperf.plugin.recorder import OF_CALL
from pytest_gpuperf.session.marker import Marker

torch.cuda.Stream = torch.cuda.current_stream = torch.cuda.CUDAGraph = MagicMock()
torch.randn = lambda *sizes, randn=torch.randn, **given: randn(*(min(size, 768) for size in sizes), **given)
torch.cuda.graph = lambda graph: contextlib.nullcontext()
torch.cuda.stream = lambda stream: contextlib.nullcontext()
scale = lambda x, factor: factor * x
cpp_extension.load_inline = lambda *_, **__: types.SimpleNamespace(scale=scale, scale_aside=scale)


class OnCpu:
    device = torch.device("cpu")

    def __call__(self, fn, *args, expected, limits=(), **more):
        kept = {name: more.pop(name) for name in tuple(more) if name in OF_CALL}
        compared = {name: kept[name] for name in ("rtol", "atol", "mutates") if name in kept}
        found = correctness.check(fn, args, more, expected=expected, **compared)
        assert found.passed, found.failure

    check = __call__

    def compare(self, fns, *args, **more):
        for fn in fns.values():
            self(fn, *args, **more)

    def __getattr__(self, name):
        return MagicMock(return_value=MagicMock(copies=0))


@pytest.fixture
def gpuperf(request):
    Marker.of(request.node)
    return OnCpu()
"""
"""A `gpuperf` that checks on the CPU, and measures nothing."""


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
def wanted() -> dict[str, str]:
    if not list(ROOT.glob("baselines/*/recordings/*.json*")):
        pytest.skip("no recording in baselines/ to show; make one on a GPU (CONTRIBUTING.md)")
    return {key(block): content for block, content in zip(BLOCKS, contents(BLOCKS), strict=True)}


def key(block: Block) -> str:
    return f"{block.page}: {block.marker}"


@pytest.mark.parametrize("block", BLOCKS, ids=key)
def test_block_shows_current_output(block: Block, wanted: dict[str, str]) -> None:
    if ".ncu-rep" in block.command:
        pytest.importorskip("ncu_report")
    assert block.shown == wanted[key(block)], f"python -m docs.update_output {block.page}"


def test_plot_shows_newest_recording() -> None:
    runs = newest_recordings(ROOT / "baselines")
    squares = (run for run in runs if any("test_square.py" in test.nodeid for test in run.tests))
    newest = next(run.id for run in squares if run.environment.gpu.slug == "nvidia-h200")
    assert f">{newest}: " in page("docs/square.svg"), "the command above it in the page"


def test_markers_of_a_page_differ() -> None:
    assert len(set(map(key, BLOCKS))) == len(BLOCKS)


def test_readme_has_at_most_150_lines() -> None:
    assert page("README.md").count("\n") <= 150


def test_documentation_has_at_most_22000_words() -> None:
    texts = [path for path in (ROOT / "docs").rglob("*") if path.suffix in (".md", ".rst")]
    assert sum(len(path.read_text(encoding="utf-8").split()) for path in texts) <= 22_000


def typed_rates(texts: dict[str, str]) -> dict[str, list[str]]:
    """Return what texts say about detection, by name, that neither the samples nor the rule say."""
    number = r"[\d.,]*\d"
    share = rf"{number} (?:%|of {number}|of) (?:of )?(?:the |all )?"
    claim = re.compile(
        rf"{share}(?:cases|slowdowns|regressions|verdicts|unchanged)|once in {number} verdicts"
        rf"|(?:finds|detects|misses) (?:changes|slowdowns|regressions) of {number} ?%"
    )
    made = " ".join(block.body for block in BLOCKS if block.name.startswith("gate_"))
    settled = next(block.body for block in BLOCKS if block.name == "gate_settled").splitlines()
    titles, shares = (
        one.strip("|").split("|") for one in settled if one.startswith(("|rule", "|in turn, ≥"))
    )
    always = [
        size for size, found in zip(titles, shares, strict=True) if size[0] == "+" and float(found) >= 99
    ]
    said = [*(f"finds changes of {size[1:]}" for size in always), f"once in {1 / LEVEL:,.0f} verdicts"]
    known = {one for text in (made, *said) for one in claim.findall(" ".join(text.split()))}
    typed = {name: claim.findall(" ".join(text.split())) for name, text in texts.items()}
    return {name: [one for one in found if one not in known] for name, found in typed.items()}


def test_rates_of_detection_come_from_samples() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in pages(ROOT)}
    typed = typed_rates(texts)
    assert not any(typed.values()), typed
    # The samples have 98 %.
    wrong = "in 48 % of the cases. finds changes of 0.5 %. once in 100,000 verdicts. 0 of 160 verdicts"
    assert len(typed_rates({"": wrong})[""]) == 4


def test_index_has_at_most_20_guides_in_four_groups() -> None:
    guides = page("docs/index.md").partition("## How-to guides\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^[A-Z].*:$", guides, re.MULTILINE)) == 4
    assert len(re.findall(r"^- ", guides, re.MULTILINE)) == len(list((ROOT / "docs/how-to").iterdir())) <= 20


def test_first_example_is_short() -> None:
    static, first = fences(page("README.md"), "python")
    assert static.count("\n") <= 15
    assert first.count("\n") <= 10
    assert first == FIRST_TEST_CODE == fences(page("docs/tutorial/first-test.md"), "python")[0]


@pytest.mark.parametrize("path", pages(ROOT), ids=lambda path: path.name)
def test_pages_install_from_where_the_package_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert with_installs(text) == text, "python -m docs.update_output"
    assert not re.search(r"install\s+pytest-gpuperf", text)


def test_index_names_every_suite() -> None:
    suites = page("docs/index.md").partition("### The suites\n")[2].partition("\n## ")[0]
    named = re.findall(r"`(test_\w+\.py)`", suites)
    assert sorted(named) == sorted(path.name for path in ROOT.glob("suites/test_*.py"))


def test_index_links_every_page() -> None:
    named = {link["path"] for link in LINK.finditer(page("docs/index.md"))}
    folders = [path for path in (ROOT / "docs").glob("*/*") if path.suffix in (".md", ".rst")]
    assert {path.relative_to(ROOT / "docs").as_posix() for path in folders} <= named


def test_options_equal_help(pytester: pytest.Pytester) -> None:
    pattern = re.compile(r"^- (--(gpuperf[^=\s]*).*) \(default: (.*?)\): (.*)$", re.MULTILINE)
    options = pattern.findall(page("docs/reference/options.md").replace("`", ""))
    assert len(options) == len([option for option in all_options() if not option.key_only]) + 1
    need_gpuperf = page("docs/reference/options.md").partition(" need `--gpuperf`")[0]
    assert all(f"`{option.flag}`" in need_gpuperf for option in all_options() if option.asks)
    of_help = " ".join(pytester.runpytest("--help").stdout.str().replace("`", "").split())
    for flag, name, default, what in options:
        ini = name.replace("-", "_")
        assert f"{flag} {what} (default: {default}; ini: {ini})" in of_help


def unknown_in(text: str) -> list[str]:
    """Return the commands and options of this package that a text names, and that do not exist."""
    flags = {option.flag for option in all_options() if not option.key_only}
    found = [one for one in re.findall(r"--gpuperf-[a-z]+(?:-[a-z]+)*", text) if one not in flags]
    for name in ("baseline", "fleet", "history"):
        group = main.get_command(click.Context(main), name)
        assert isinstance(group, click.Group)
        named = re.findall(rf"\bgpuperf {name} ([a-z]+)", text)
        found += [f"{name} {one}" for one in named if one not in group.commands]
    return found + [
        one for one in re.findall(r"[`:;\"] ?gpuperf ([a-z][a-z-]*)", text) if one not in commands()
    ]


def test_named_commands_and_options_exist() -> None:
    paths = [*ROOT.glob("pytest_gpuperf/**/*.*"), *ROOT.glob("docs/*/*.md"), *ROOT.glob("*.md")]
    texts = [path for path in paths if path.suffix in (".py", ".md", ".yml") and path.name != "CHANGELOG.md"]
    found = {path.name: unknown_in(path.read_text(encoding="utf-8")) for path in texts}
    assert {name: unknown for name, unknown in found.items() if unknown} == {}
    assert unknown_in("type `gpuperf clean`, gpuperf baseline pin v1, --gpuperf-keep=5") == [
        *("--gpuperf-keep", "baseline pin", "clean")
    ]


def test_every_metric_is_explained() -> None:
    def named(text: str) -> list[str]:
        rows = re.findall(r"^- (`[^(:]+`)", text, re.MULTILINE)
        return [name for row in rows for name in re.findall(r"`(.+?)`", row)]

    assert named(page("docs/reference/limits.md").partition("## Times\n")[2]) == list(VALUES)
    on_site = with_lists(page("docs/reference/metrics.md"))
    assert named(on_site.partition("## All metrics\n")[2]) == list(METRICS)


def test_every_verdict_is_explained() -> None:
    explained = re.findall(r"^- `(\w+)`:", page("docs/reference/verdicts.md"), re.MULTILINE)
    assert explained == [status.value for status in Status]


def test_glossary_has_every_verdict_and_choice() -> None:
    words = {status.value for status in Status}.union(*(option.choices for option in all_options()))
    missing = words - set(re.findall(r"\w+", page("docs/reference/glossary.md")))
    assert missing <= {"always", "auto", "off", "never"}


def test_api_reference_has_every_public_name() -> None:
    documented = re.findall(r"^\.\. auto\w+:: (\w+)$", page("docs/reference/api.rst"), re.MULTILINE)
    assert set(pytest_gpuperf.__all__) - {"__version__"} <= set(documented)


def test_map_names_rooms_in_order_of_layers() -> None:
    contract = page("pyproject.toml").partition("\nlayers = [\n")[2].partition("]")[0]
    rooms = re.findall(r"^\| `(\w+)[/.]", page("CONTRIBUTING.md"), re.MULTILINE)
    assert [*rooms, "_version"] == re.findall(r"\w+", contract)


def test_contributing_names_existing_files() -> None:
    named = re.findall(r"(?:pytest_gpuperf|tests|docs)/[\w./-]+\w", page("CONTRIBUTING.md"))
    assert [name for name in named if "PAGE" not in name and not (ROOT / name).exists()] == []
    short = re.findall(r"`((?:\w+/)*\w+\.py)`", page("CONTRIBUTING.md"))
    assert [name for name in short if name not in named and not any(PACKAGE.rglob(name))] == []


@pytest.mark.usefixtures("forked_runs")
@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_examples_of_guides_run_on_a_cpu(pytester: pytest.Pytester, path: Path) -> None:
    pytester.makeconftest(ON_CPU)
    texts = [text for text in fences(path.read_text(encoding="utf-8"), "python") if "def test_" in text]
    for number, text in enumerate(texts):
        pytester.makepyfile(**{f"test_{path.stem}_{number}": text})
    result = pytester.runpytest_subprocess("-q")
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize("path", pages(ROOT), ids=lambda path: path.name)
def test_links_have_targets(path: Path) -> None:
    for link in LINK.finditer(FENCE.sub("", path.read_text(encoding="utf-8"))):
        target = path.parent / link["path"] if link["path"] else path
        assert target.exists(), link[0]
        if link["anchor"]:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert link["anchor"] in anchors, link[0]


def test_examples_are_collected(pytester: pytest.Pytester) -> None:
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
