"""Changes inside a kernel since its baseline, as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.judge.counters import SHOWN_CHANGES
from pytest_gpuperf.judge.times import time_line
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.report.show import count
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from pytest_gpuperf.features.explain.diagnosis import Turned
    from pytest_gpuperf.judge.counters import CounterComparison
    from pytest_gpuperf.judge.settlement import Judgement
    from pytest_gpuperf.records import Timing


def change_lines(
    judgement: Judgement, counters: CounterComparison, timing: Timing | None, turned: Turned
) -> tuple[str, ...]:
    """Show how a measurement differs from its baseline, if that is more than noise.

    Args:
        judgement: The judgement of its time.
        counters: Its counters compared with their baseline.
        timing: Its time.
        turned: The diagnoses that came and went.

    Returns:
        The time, the kernels, then the counters that moved, the largest mover first; then the diagnoses that
        came and went. Nothing if the time is within the screen, no exact counter is worse and the same
        kernels run.
    """
    time, outcome = judgement.time, judgement.outcome
    time_moved = outcome is not Outcome.PASS
    worse_exact = outcome is not Outcome.IMPROVED and counters.worse_exact
    if not (time_moved or worse_exact or counters.kernels):
        return ()
    lines = [time_line(time, timing.mode)] if time and time_moved and timing else []
    lines += [counters.kernels] if counters.kernels else []
    lines += [str(change) for change in counters.changes[:SHOWN_CHANGES]]
    more = len(counters.changes) - SHOWN_CHANGES
    if more > 0:
        lines.append(f"and {count(more, 'more counter')}")
    for codes, word in ((turned.now, "now"), (turned.gone, "no longer")):
        if codes:
            lines.append(f"{word} {', '.join(codes)}")
    return tuple(map(printable, lines))
