"""Results of ncu rules, from a report and from CSV."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from present import present
from pytest_gpuperf.features.ncu.csv_reader import read_csv
from pytest_gpuperf.features.ncu.details_labels import by_speedup, rule_of
from pytest_gpuperf.features.ncu.launch_tables import rule_table
from pytest_gpuperf.features.ncu.report_file import ReportKernel
from pytest_gpuperf.features.ncu.report_reader import read_report
from pytest_gpuperf.features.ncu.rule_results import RuleResult, rules_from_report

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
LIBRARY = SimpleNamespace(
    MsgType_OK=1, MsgType_OPTIMIZATION=2, MsgType_ERR=4, SpeedupType_LOCAL=1, SpeedupType_GLOBAL=2
)


def result(message: str = "Said.", type: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "rule_identifier": "CPIStall",
        "name": "Warp Stall",
        "section_identifier": "WarpStateStats",
        "rule_message": {"title": "", "message": message, "type": type},
        **more,
    }


def row(**cells: str) -> dict[str, str]:
    own = {"Section Name": "WarpStateStats", "Rule Name": "CPIStall", "Rule Type": "OPT"}
    return {**own, "Rule Description": "Said.", **cells}


def test_report_and_csv_give_the_same_rule() -> None:
    estimate = {"type": LIBRARY.SpeedupType_LOCAL, "speedup": 49.45}
    (of_report,) = rules_from_report([result(speedup_estimation=estimate)], LIBRARY)
    of_csv = rule_of(row(**{"Estimated Speedup Type": "local", "Estimated Speedup": "49.45"}))
    assert of_csv == RuleResult(
        rule="CPIStall",
        section="WarpStateStats",
        kind="optimization",
        message="Said.",
        estimated_speedup_pct=49.45,
        scope="local",
    )
    assert of_report.title == "Warp Stall"
    assert (of_report.message, of_report.kind, of_report.scope) == (of_csv.message, of_csv.kind, of_csv.scope)


def test_message_of_a_report_equals_that_in_csv(tmp_path: Path) -> None:
    # Two captures have the same text of the rule, one with links and one as printed by ncu.
    pytest.importorskip("ncu_report")
    path = tmp_path / "full.ncu-rep"
    path.write_bytes(gzip.decompress((CAPTURES / "triton_square_gemm_set_full.ncu-rep.gz").read_bytes()))
    text = gzip.decompress((CAPTURES / "torch_mixed_details_long.csv.gz").read_bytes()).decode()

    def general(rules: tuple[RuleResult, ...]) -> str:
        return next(rule.message for rule in rules if rule.rule == "CPIStall" and rule.kind == "information")

    of_report = general(read_report(path, ())[0].rules)
    assert of_report == general(read_csv(text)[0].rules)
    assert "The Profiling Guide (https://docs.nvidia.com/" in of_report


@pytest.mark.parametrize(
    ("linked", "plain"),
    [
        ("see @section:LaunchStats:Launch Statistics@ for more", "see Launch Statistics for more"),
        ("at @source:gemm.py:5:gemm.py, line 6@", "at gemm.py, line 6"),
        ("at @sass:0x7f00:FADD@", "at FADD"),
        ("the @url:Guide: part 1:https://a.b/c?d:e@.", "the Guide: part 1 (https://a.b/c?d:e)."),
        ("mail a@b.c or @unknown:x@", "mail a@b.c or @unknown:x@"),
    ],
)
def test_links_become_their_text(linked: str, plain: str) -> None:
    assert rules_from_report([result(linked)], LIBRARY)[0].message == plain


def test_result_without_a_message_is_left_out() -> None:
    assert rules_from_report([result("")], LIBRARY) == ()
    assert rule_of(row(**{"Rule Description": ""})) is None
    assert rule_of({"Metric Name": "Duration", "Rule Name": ""}) is None


def test_unknown_kinds_are_information() -> None:
    kinds = [rule.kind for rule in rules_from_report([result(type=n) for n in range(5)], LIBRARY)]
    assert kinds == ["information", "information", "optimization", "information", "error"]


@pytest.mark.parametrize("text", ["", "n/a", "nan", "inf"])
def test_estimate_that_is_not_a_number_is_left_out(text: str) -> None:
    rule = present(rule_of(row(**{"Estimated Speedup Type": "global", "Estimated Speedup": text})))
    assert (rule.estimated_speedup_pct, rule.scope) == (None, "")


def test_rules_are_sorted_by_estimate() -> None:
    rules = [
        RuleResult(rule=name, message="Said.", estimated_speedup_pct=estimate)
        for name, estimate in [("a", None), ("b", 5.0), ("c", 0.0), ("d", 1234.5), ("e", None), ("f", 5.0)]
    ]
    assert "".join(rule.rule for rule in by_speedup(rules)) == "dbfcae"


def test_rules_of_identical_launches_are_not_called_hidden() -> None:
    """Those of the first launch stand for them, and no other choice of `--rules` shows more."""
    rules = (RuleResult(rule="a", message="Said."),)
    launches = [
        ReportKernel(name="k", metrics={}, launch=at, rules=rules, grid=(1, 1, 1), block=(32, 1, 1))
        for at in range(2)
    ]
    assert rule_table(launches, everything=True).notes == []
