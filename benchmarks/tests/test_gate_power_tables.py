"""Tests of the tables of the gate's benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from benchmarks.gate_power.tuning import CHOICES, best

from benchmarks.gate_power import samples as sample_files
from benchmarks.gate_power.analysis import TUNED, Summary, analyse, read
from benchmarks.gate_power.samples import Failed
from benchmarks.gate_power.tables import by_kernel, effects, outcomes, report, summarised
from benchmarks.gate_power.verdicts import FASTER, PASS, SLOWER, Verdicts
from benchmarks.results_file import encode
from docs.generated import GENERATED, NOT_YET
from gate_samples import summary_of_samples

ROOT = Path(__file__).parents[2]


@pytest.fixture
def summary() -> Summary:
    return summary_of_samples()


def test_false_alarms_are_shown_with_their_bound(summary: Summary) -> None:
    rows = outcomes(summary.held_out).splitlines()
    assert rows[0].startswith("|rule|unchanged code: verdicts|slower|95 % bound|")
    (row,) = (row for row in rows if row.startswith("|baseline of 5 sessions|"))
    assert row.startswith("|baseline of 5 sessions|90|0|≤ 4.0|0|0|")


def test_each_dose_has_its_share_with_bounds(summary: Summary) -> None:
    (row,) = (row for row in outcomes(summary.held_out).splitlines() if row.startswith("|against|"))
    assert "|100 (29-100)|" in row


def test_by_kernel_shows_found_of_all(summary: Summary) -> None:
    titles, _, *rows = by_kernel(summary.held_out).splitlines()
    assert titles.startswith("|kernel|baseline of 8 sessions, 0.5 %|")
    assert rows[0].startswith("|short|")
    # Restarts have no more than 1 %.
    assert rows[0].endswith("|1/1|1/1|—|—|")


def test_summary_names_missed_targets(summary: Summary) -> None:
    text = summarised(summary)
    assert text.startswith(f"NVIDIA H200, torch 2.11.0, commit c0ffee1, {TUNED[:10]}; 12 sessions and 12 ")
    assert "held out (baseline of 8 sessions and against): 0 false alarms in 96 verdicts, fewer" in text
    rule = summary.newest_against["NVIDIA H200"]
    few = msgspec.structs.replace(rule, doses={"10": Verdicts({PASS: 9, SLOWER: 1})})
    missed = msgspec.structs.replace(summary, newest_against={"NVIDIA H200": few})
    assert "Newest restarts, NVIDIA H200, against: none with 0.5 %" in summarised(missed)
    assert "10 % (0-45) of 10 slowdowns of 1 % (target 99 % missed)" in summarised(missed)


def test_summary_states_unchanged_code_that_was_called_faster(summary: Summary) -> None:
    rules = [
        msgspec.structs.replace(rule, unchanged=Verdicts({PASS: 95, FASTER: 1}))
        for rule in summary.held_out.rules
    ]
    held_out = msgspec.structs.replace(summary.held_out, rules=rules)
    text = summarised(msgspec.structs.replace(summary, held_out=held_out))
    assert "held out (baseline of 8 sessions and against): 0 false alarms in 192 verdicts" in text
    assert "%), 2 called faster. Unchanged code, all samples: " in text


def test_newest_sessions_state_what_is_found_today(summary: Summary) -> None:
    text = summarised(summary)
    assert "Newest sessions, NVIDIA H200, baseline of 5 sessions: " in text
    rule = summary.newest["NVIDIA H200"]
    few = msgspec.structs.replace(rule, doses={"10": Verdicts({PASS: 9, SLOWER: 1}), "20": rule.doses["20"]})
    missed = msgspec.structs.replace(summary, newest={"NVIDIA H200": few})
    assert "10 % (0-45) of 10 slowdowns of 1 % (target 90 % missed)" in summarised(missed)


def test_summary_states_what_holds_for_short_kernels(summary: Summary) -> None:
    assert "Below" not in summarised(summary)
    effects = [msgspec.structs.replace(effect, time_us=4.9) for effect in summary.effects[:1]]
    short = msgspec.structs.replace(summary, effects=[*effects, *summary.effects[1:]])
    assert f"Below 5 µs ({effects[0].kernel}): " in summarised(short)


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
    assert len(BLOCKS) == 4
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
    """Only the thresholds that are shipped or were found are tried again: what moves others moves these."""
    path = ROOT / "benchmarks" / "results" / "gate_power.json"
    stored, summary = json.loads(path.read_bytes()), read(path)
    assert [each.thresholds for each in summary.tried] == list(CHOICES)
    assert best(summary.tried, lambda each: each.tuning) == summary.tuned
    assert best(summary.tried, lambda each: each.held_out) == summary.tuned_swapped
    lines = sample_files.read(sorted(ROOT.glob("benchmarks/results/gate_power*.jsonl.gz")))
    known = (stored["shipped"], stored["tuned"], stored["tuned_swapped"])
    chosen = [each for each in CHOICES if any(each.items() <= found.items() for found in known)]
    found = json.loads(encode(analyse(lines, chosen)))
    again = [each for each in stored.pop("tried") if each["thresholds"] in chosen]
    assert found.pop("tried") == again
    assert found == stored, "python -m benchmarks.gate_power analyse"
