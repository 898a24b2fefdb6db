"""Lines of the history from a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pytest_gpuperf.baseline.gather import gather
from pytest_gpuperf.baseline.rounding import TIME_DIGITS, round_to_digits
from pytest_gpuperf.features.history.record import HISTORY_SCHEMA, HistoryLine
from pytest_gpuperf.judge.screen import ENOUGH_BLOCKS
from pytest_gpuperf.records import NO_GPU, ClockModel
from pytest_gpuperf.records.plausible import alike
from pytest_gpuperf.statistics.clock_model import normalise, normalise_blocks
from pytest_gpuperf.statistics.estimate import standard_error, trimmed_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.records import Run, Timing, TimingSource

_ERROR_DIGITS = 2


class Taken(NamedTuple):
    """Lines from a run, and the times that are not taken."""

    lines: Sequence[HistoryLine]
    left_out: Sequence[tuple[str, str]]
    """Test or label, and the reason."""


def lines_of(
    run: Run,
    sources: Mapping[tuple[str, str, str], TimingSource],
    *,
    commit_date: str = "",
    url: str = "",
) -> Taken:
    """Return a line for each time of a run that a baseline could take.

    Args:
        run: The run.
        sources: Source of the stored times of a test, by GPU, test and label: a run that has times of two
            sources gives that one.
        commit_date: Date of the run's commit, ISO 8601; empty if unknown.
        url: Address of the CI job that measured; empty if unknown.
    """
    gpu, toolchain = run.environment.gpu, run.environment.toolchain
    lines, left_out = [], []
    for test in gather([run]) if gpu.slug != NO_GPU.slug else []:
        left_out += [
            (f"{test.nodeid} ({label})" if label else test.nodeid, why) for label, why in test.refused
        ]
        for label, taken in test.labels.items():
            for _, timing in taken.times:
                if why := _not_judged(timing):
                    left_out.append((_name(test.nodeid, label), why))
                    continue
                known = sources.get((gpu.slug, test.nodeid, label), timing.source)
                lines.append(
                    _line(
                        timing.by(known) or timing,
                        HistoryLine(
                            schema=HISTORY_SCHEMA,
                            test=test.nodeid,
                            label=label,
                            gpu=gpu.slug,
                            gpu_name=gpu.name,
                            gpu_uuid=taken.cards.get(run.id, gpu.uuid),
                            run=run.id,
                            date=run.started_at,
                            url=url,
                            commit=run.environment.commit,
                            commit_date=commit_date,
                            dirty=run.environment.dirty,
                            mode=timing.mode,
                            time_us=timing.time_us,
                            driver=toolchain.driver,
                            torch=toolchain.torch,
                            triton=toolchain.triton,
                        ),
                    )
                )
    return Taken(lines, left_out)


def _not_judged(timing: Timing) -> str:
    if timing.only_host:
        return "the time is by the host's clock, as CUPTI was missing"
    return timing.refused


def _name(nodeid: str, label: str) -> str:
    return nodeid if label in ("", "main") else f"{nodeid} ({label})"


def _line(timing: Timing, line: HistoryLine) -> HistoryLine:
    """Add the values of a timing to a line."""
    # A stored model is that of another run, and would count twice.
    model = None if timing.clock_model_stored else timing.clock_model
    clock, blocks = timing.sm_clock_mhz, timing.blocks_us
    normalised = 0.0
    if model is not None:
        model = _rounded(model)
        if clock:
            at_reference = normalise_blocks(blocks, timing.blocks_mhz, model)
            mean = trimmed_mean(at_reference)
            # A clock that swings makes a mean time and a mean clock that do not belong together.
            if alike(mean, normalise(timing.time_us, clock, model)):
                normalised, blocks = mean, tuple(at_reference)
    error = standard_error(blocks) / (normalised or timing.time_us) if len(blocks) >= ENOUGH_BLOCKS else 0.0
    return msgspec.structs.replace(
        line,
        source=timing.source,
        time_us=round_to_digits(timing.time_us, TIME_DIGITS),
        standard_error=min(round_to_digits(error, _ERROR_DIGITS), 1.0),
        sm_clock_mhz=round_to_digits(clock, TIME_DIGITS),
        normalised_us=round_to_digits(normalised, TIME_DIGITS),
        clock_model=model,
    )


def _rounded(model: ClockModel) -> ClockModel:
    return ClockModel(
        cycles=round_to_digits(model.cycles, TIME_DIGITS),
        fixed_us=round_to_digits(model.fixed_us, TIME_DIGITS),
        reference_mhz=round_to_digits(model.reference_mhz, TIME_DIGITS),
        share_error=round_to_digits(model.share_error, _ERROR_DIGITS),
    )
