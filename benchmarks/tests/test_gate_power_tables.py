"""Tests of the tables of the gate's benchmark."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from benchmarks.gate_power import samples as sample_files
from benchmarks.gate_power import unchanged
from benchmarks.gate_power.analysis import Summary, analyse, read, rules_before
from benchmarks.gate_power.samples import Failed
from benchmarks.gate_power.tables import detection, effects, headline, report, settled, summarised
from benchmarks.gate_power.verdicts import PASS, SLOWER, Verdicts
from benchmarks.results_file import encode
from benchmarks.settling import Case, Part
from docs.generated import GENERATED, NOT_YET
from gate_samples import summary_of_samples
from pytest_gpuperf.records import Environment, GpuInfo, Toolchain

ROOT = Path(__file__).parents[2]


@pytest.fixture
def summary() -> Summary:
    return summary_of_samples()


def test_detection_has_a_row_for_each_class(summary: Summary) -> None:
    titles, _, *rows = detection(summary).splitlines()
    assert titles.startswith(
        "|sessions|card|time|+0.5 % fails|+1 % fails|+2 % fails|+5 % fails|suspects of 100"
    )
    assert [row.split("|")[1:3] for row in rows] == [[stored, "the same"] for stored in "135"]
    # Restarts have no more than 1 %; six restarts in turn bound little.
    assert rows[0].endswith("|—|—|1.7|7|7.4/54/100|")


def test_headline_says_what_one_session_finds(summary: Summary) -> None:
    assert "a slowdown of 1 % fails in " in headline(summary)


def test_settled_shows_false_alarms_with_their_bound(summary: Summary) -> None:
    titles, _, *rows = settled(summary).splitlines()
    assert titles.startswith("|rule|unchanged: verdicts|slower|at most, by process|by card|")
    # Six pairs of processes, on one card.
    assert re.match(r"\|in turn, ≥ 5 µs\|\d+\|0\|45.9\|97.5\|0\|", rows[0])
    # Restarts have no more than 1 %.
    assert "|—|—|" in rows[0]


def test_unchanged_verdicts_are_counted_by_model(summary: Summary) -> None:
    gpu = GpuInfo(name="NVIDIA H100 80GB HBM3", slug="h100", uuid="GPU-2")
    cases = [
        Case(change=change, test=test, verdict=verdict, how="", seconds=0, session_s=1, exit_status=0)
        for change, test, verdict in (
            ("unchanged", "t (a)", "pass"),
            ("unchanged", "t (b)", "new"),
            ("unchanged", "u", "inconclusive"),
            ("+0 %", "t", "regressed"),
            ("+1 %", "t", "regressed"),
        )
    ]
    environment = Environment(gpu=gpu, toolchain=Toolchain())
    live = [Part(date="", environment=environment, baseline="none", cases=tuple(cases))]
    _, _, restarts, in_turn, usual = unchanged.rows(summary, live).splitlines()
    [sampled] = summary.unchanged
    assert restarts.startswith(f"|restarts of the benchmark|H200|1|{sampled.verdicts.count}|0|")
    decided = sampled.verdicts.found(PASS) + 3
    assert usual.startswith("|runs in fresh checkouts|H100|1|1|1|")
    # Two processes are the trials: labels share one.
    assert in_turn == "|runs in fresh checkouts, all in turn|H100|1|3|0|84.2|97.5|0|1|"
    assert (
        f"was red in 1 and `improved` in 0 of {decided} verdicts, 3 of them by runs of pytest, on 2 cards"
        in (headline(summary, live))
    )
    text = unchanged.target(summary, live)
    assert text.startswith(
        f"Targets: {decided} of 1,000 verdicts ({1000 - decided} short), 2 of 2 models (met)"
    )
    assert "alone: 3 of 1,000 verdicts (997 short), 1 of 2 models (1 short)" in text
    assert text.endswith("2 of 300 in turn (298 short).\n")


def test_summary_names_missed_targets(summary: Summary) -> None:
    text = summarised(summary)
    assert text.startswith(
        "NVIDIA H200, torch 2.11.0, commit c0ffee1, 2026-11-25; 12 sessions and 12 restarts"
    )
    assert "+1 % in 90 % (met)" in text
    assert "suspects at most 4 % (met)" in text
    few = msgspec.structs.replace(summary.screens[0], doses={"10": Verdicts({}, {PASS: 9, SLOWER: 1})})
    missed = msgspec.structs.replace(summary, screens=[few, *summary.screens[1:]])
    assert "+1 % in 90 % (missed)" in summarised(missed)


def test_report_of_failed_sampling_says_so() -> None:
    nothing = analyse([Failed(what="process 0", why="no GPU")])
    assert "- process 0: no GPU" in report(nothing)
    assert "0 sessions and 0 restarts" in report(nothing)


def test_summary_survives_its_file(summary: Summary, tmp_path: Path) -> None:
    path = tmp_path / "gate_power.json"
    path.write_bytes(encode(summary))
    assert read(path) == summary
    assert effects(read(path)) == effects(summary)


BLOCKS = tuple(name for name in GENERATED if name.startswith(("gate_", "accuracy_")))


def test_blocks_without_results_have_no_figures(tmp_path: Path) -> None:
    assert len(BLOCKS) == 9
    assert {GENERATED[name](tmp_path) for name in BLOCKS} == {NOT_YET}


def test_blocks_with_results_have_no_empty_line(summary: Summary, tmp_path: Path) -> None:
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    (folder / "gate_power.json").write_bytes(encode(summary))
    for name in BLOCKS:
        if name.startswith("gate_"):
            text = GENERATED[name](tmp_path)
            assert text.endswith("\n")
            assert "\n\n" not in text


@pytest.mark.skipif(
    not list(ROOT.glob("benchmarks/results/gate_power*.jsonl.gz")),
    reason="nothing was sampled yet; docs/explanation/gate.md says how",
)
def test_stored_summary_matches_the_samples() -> None:
    path = ROOT / "benchmarks" / "results" / "gate_power.json"
    lines = sample_files.read(sorted(ROOT.glob("benchmarks/results/gate_power*.jsonl.gz")))
    former = rules_before(path.with_name("gate_power_fc9efc0.json"))
    assert json.loads(encode(analyse(lines, former))) == json.loads(path.read_bytes()), (
        "python -m benchmarks.gate_power analyse"
    )
