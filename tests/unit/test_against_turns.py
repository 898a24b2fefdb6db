"""The order of blocks of two scripted sides."""

from __future__ import annotations

import math
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.against import blocks
from pytest_gpuperf.against.blocks import LEAST_QUADS, MOST_QUADS
from pytest_gpuperf.against.git import Commit
from pytest_gpuperf.against.messages import Answer, Begin, BlockTime, Command, Ended, GoOn, Ready, RunBlock
from pytest_gpuperf.against.restart_series import Series
from pytest_gpuperf.against.turns import RestartResult, Turns
from pytest_gpuperf.records import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.statistics.sequential import Side

MAIN = Commit("main", "1a2b3c4d5e")


WARM_UP = "ABAB"


@pytest.fixture(autouse=True)
def _short_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "WARM_UP_S", 0.0)


class ScriptedSide:
    """A side with the labels of a script and the block times of a generator."""

    def __init__(
        self, side: Side, stage: list[str], calls: Sequence[Ready], times: Iterator[float], failure: str = ""
    ) -> None:
        self._side = side
        self._stage = stage
        self._calls = iter(calls)
        self._times = times
        self._failure = failure

    def ask(self, command: Command) -> Answer:
        if isinstance(command, RunBlock):
            self._stage.append(self._side + "r" * command.recorded)
            time_us = next(self._times, None)
            return Ended("its call ended with Error: x") if time_us is None else BlockTime(time_us, 1980.0)
        assert isinstance(command, (Begin, GoOn))
        self._stage.append(self._side.lower())
        return next(self._calls, None) or Ended(self._failure)


def constant(time_us: float) -> Iterator[float]:
    while True:
        yield time_us


def noisy(time_us: float, noise: float) -> Iterator[float]:
    rng = Random(3)
    while True:
        yield time_us * math.exp(rng.gauss(0, noise))


HOT = Fingerprint(mode="hot")


def hot(*labels: str, short: bool = False) -> list[Ready]:
    return [Ready(label, HOT, short) for label in labels]


def play(
    old: Sequence[Ready],
    new: Sequence[Ready],
    *,
    old_times: Iterator[float] | None = None,
    new_times: Iterator[float] | None = None,
    old_failure: str = "",
    budget_s: float = 10.0,
    seed: int = 0,
    recorded: dict[str, bool] | None = None,
    labels: str = "abmain",
) -> tuple[RestartResult, str]:
    """Return the results, and the order of steps: `A` and `B` for a block, `a` and `b` for a move."""
    stage: list[str] = []
    players = {
        "A": ScriptedSide("A", stage, old, old_times or constant(10.0), old_failure),
        "B": ScriptedSide("B", stage, new, new_times or constant(11.0)),
    }
    turns = Turns(players, Random(seed), budget_s)  # type: ignore[arg-type]
    return turns.play(labels, recorded or {}), "".join(stage)


def series(label: str, *rounds: RestartResult) -> Series:
    made = Series()
    for taken in rounds:
        made.take(taken, label, MAIN)
    return made


@pytest.mark.parametrize("seed", range(5))
def test_first_block_after_each_switch_is_discarded(seed: int) -> None:
    taken, stage = play(hot("main"), hot("main"), seed=seed)
    kept = "".join(block.side for block in taken.blocks["main"])
    assert {kept[at : at + 4] for at in range(0, len(kept), 4)} == {"ABBA", "BAAB"}
    switches = [(side, len(list(blocks))) for side, blocks in groupby(kept)]
    blocks = "".join(side * (count + 1) for side, count in switches)
    assert stage.strip("ab") == WARM_UP + blocks


def test_precise_blocks_are_enough_before_the_budget_is_spent() -> None:
    taken, _ = play(hot("main"), hot("main"))
    assert len(taken.blocks["main"]) == 4 * 5


def test_noisy_blocks_continue_to_the_maximum() -> None:
    taken, _ = play(hot("main"), hot("main"), old_times=noisy(10.0, 0.1))
    assert len(taken.blocks["main"]) == 4 * MOST_QUADS


def test_spent_budget_leaves_the_minimum_of_blocks() -> None:
    taken, _ = play(hot("main"), hot("main"), old_times=noisy(10.0, 0.1), budget_s=0.0)
    assert len(taken.blocks["main"]) == 4 * LEAST_QUADS


def test_ratio_is_new_over_old() -> None:
    found = series("main", play(hot("main"), hot("main"))[0])
    assert found.log_ratios == [pytest.approx(math.log(1.1))]
    record = found.record(MAIN)
    assert (record.old_us, record.new_us, record.old_mhz, record.mode) == (10.0, 11.0, 1980.0, "hot")


def test_label_that_old_code_lacks_is_skipped() -> None:
    taken, _ = play(hot("a", "b"), hot("a", "new", "b"))
    assert list(taken.blocks) == ["a", "b"]
    assert series("new", taken).reason == "not on main (1a2b3c4): the test times no 'new' there"


def test_reordered_labels_are_reported() -> None:
    taken, _ = play(hot("a", "b"), hot("b", "a"))
    assert [label for label in "ab" if label not in taken.blocks] == ["b"]
    assert series("b", taken).reason == "the test makes its calls in another order on main (1a2b3c4)"


def test_decided_label_is_not_timed_again() -> None:
    taken, stage = play(hot("a", "b"), hot("a", "b"), labels="b")
    assert (list(taken.blocks), stage[:6]) == (["b"], "ababAB")


def test_comparisons_before_a_failure_count() -> None:
    taken, _ = play(hot("a"), hot("a", "b"), old_failure="its call ended with ValueError: no")
    assert len(series("a", taken).log_ratios) == 1
    assert "ValueError" in series("b", taken).reason


def test_code_of_the_other_side_makes_all_times_void() -> None:
    taken, _ = play(hot("a"), hot("a"))
    taken.void = "module pkg was loaded from pkg.py of the checkout"
    assert series("a", taken).reason == taken.void


def test_failure_during_timing_affects_one_call_only() -> None:
    taken, _ = play(hot("a", "b"), hot("a", "b"), old_times=iter([10.0] * 5))
    assert taken.blocks == {}
    assert series("a", taken).reason == "on main (1a2b3c4) its call ended with Error: x"


@pytest.mark.parametrize(("old", "new"), [(True, True), (True, False), (False, True)])
def test_cupti_times_a_call_that_is_short_on_both_sides(old: bool, new: bool) -> None:
    taken, stage = play(hot("main", short=old), hot("main", short=new))
    recorded = old and new
    assert series("main", taken).recorded is recorded
    assert stage.count("r") == (stage.count("A") + stage.count("B") - len(WARM_UP)) * recorded


def test_all_restarts_of_a_call_have_the_source_of_the_first() -> None:
    assert play(hot("main"), hot("main"), recorded={"main": True})[0].recorded == {"main": True}
    short = hot("main", short=True)
    assert play(short, short, recorded={"main": False})[0].recorded == {"main": False}


def test_new_code_by_itself_is_warmed_up_and_timed() -> None:
    stage: list[str] = []
    side = ScriptedSide("B", stage, hot("a", "b"), constant(11.0))
    taken = Turns({"B": side}, Random(0), 0.0).play("ab", {"a": True})  # type: ignore[dict-item]
    assert {label: len(blocks) for label, blocks in taken.blocks.items()} == {"a": 10, "b": 10}
    assert "".join(stage) == "b" + "Br" * 11 + "b" + "B" * 11 + "b"


def test_call_that_cupti_seldom_records_is_not_compared() -> None:
    short = hot("main", short=True)
    taken, _ = play(short, short, old_times=constant(0.0))
    assert series("main", taken).reason == "CUPTI could not record enough of its blocks"


def test_lost_block_does_not_spend_the_budget() -> None:
    lost = iter([10.0] * 9 + [0.0] + [10.0] * 200)
    taken, _ = play(hot("main"), hot("main"), old_times=lost)
    assert len(taken.blocks["main"]) == 4 * 5


def test_negative_cold_time_is_not_a_time() -> None:
    taken, _ = play(hot("main"), hot("main"), old_times=constant(-0.1))
    assert "too short to be timed cold" in series("main", taken).reason
