"""Results of ncu rules, from a report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gpuperf.features.ncu.rule_results import RuleResult, by_speedup, rules_from_report

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


def test_rule_of_a_report_has_its_estimate() -> None:
    estimate = {"type": LIBRARY.SpeedupType_LOCAL, "speedup": 49.45}
    assert rules_from_report([result(speedup_estimation=estimate)], LIBRARY) == (
        RuleResult(
            rule="CPIStall",
            section="WarpStateStats",
            title="Warp Stall",
            kind="optimization",
            message="Said.",
            estimated_speedup_pct=49.45,
            scope="local",
        ),
    )


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


def test_unknown_kinds_are_information() -> None:
    kinds = [rule.kind for rule in rules_from_report([result(type=n) for n in range(5)], LIBRARY)]
    assert kinds == ["information", "information", "optimization", "information", "error"]


def test_rules_are_sorted_by_estimate() -> None:
    rules = [
        RuleResult(rule=name, message="Said.", estimated_speedup_pct=estimate)
        for name, estimate in [("a", None), ("b", 5.0), ("c", 0.0), ("d", 1234.5), ("e", None), ("f", 5.0)]
    ]
    assert "".join(rule.rule for rule in by_speedup(rules)) == "dbfcae"
