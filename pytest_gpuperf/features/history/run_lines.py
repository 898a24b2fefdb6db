"""Lines of the history from a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.baseline.acceptance import refusal
from pytest_gpuperf.baseline.rounding import TIME_DIGITS, round_to_digits
from pytest_gpuperf.features.history.history_line import HISTORY_SCHEMA, HistoryLine
from pytest_gpuperf.records import NO_GPU, ClockModel
from pytest_gpuperf.records.call import with_label
from pytest_gpuperf.statistics.clock_model import normalise_blocks
from pytest_gpuperf.statistics.decision import standard_error, trimmed_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.records import Run, Timing, TimingSource

_ERROR_DIGITS = 2


class RunLines(NamedTuple):
    """Lines from a run, and the times that are none."""

    lines: Sequence[HistoryLine]
    left_out: Sequence[tuple[str, str]]
    """Test, with its label, and the reason."""


def lines_of(
    run: Run,
    sources: Mapping[tuple[str, str, str], TimingSource],
    *,
    commit_date: str = "",
    url: str = "",
) -> RunLines:
    """Return a line for each time of a run that a baseline could take.

    Args:
        run: The run.
        sources: Source of the stored times of a test, by GPU, test and label: a run that has times of two
            sources gives that one.
        commit_date: Date of the run's commit, ISO 8601; empty if unknown.
        url: Address of the CI job that measured; empty if unknown.
    """
    gpu, environment = run.environment.gpu, run.environment
    lines, left_out = [], []
    for test in run.tests if gpu.slug != NO_GPU.slug else ():
        if why := refusal(test, gpu):
            left_out.append((test.nodeid, why))
            continue
        for label, measurement in test.measurements.items():
            if (measured := measurement.timing) is not None:
                if why := _why_left_out(measured):
                    left_out.append((with_label(test.nodeid, label), why))
                    continue
                source = sources.get((gpu.slug, test.nodeid, label), measured.source)
                timing = measured.by(source) or measured
                # A stored model is that of another run, and would count twice.
                known = timing.clock_model
                model = None if known is None or known.stored else known
                normalised_us, error = _at_one_clock(timing, model)
                lines.append(
                    HistoryLine(
                        schema=HISTORY_SCHEMA,
                        test=test.nodeid,
                        label=label,
                        gpu=gpu.slug,
                        gpu_name=gpu.name,
                        gpu_uuid=test.gpu_uuid or gpu.uuid,
                        run=run.id,
                        date=run.started_at,
                        url=url,
                        commit=environment.commit,
                        commit_date=commit_date,
                        dirty=environment.dirty,
                        mode=timing.mode,
                        source=timing.source,
                        time_us=round_to_digits(timing.time_us, TIME_DIGITS),
                        standard_error=min(round_to_digits(error, _ERROR_DIGITS), 1.0),
                        sm_clock_mhz=round_to_digits(timing.sm_clock_mhz, TIME_DIGITS),
                        normalised_us=round_to_digits(normalised_us, TIME_DIGITS),
                        clock_model=model,
                        driver=environment.toolchain.driver,
                        torch=environment.toolchain.torch,
                        triton=environment.toolchain.triton,
                    )
                )
    return RunLines(lines, left_out)


def _why_left_out(timing: Timing) -> str:
    if timing.only_host:
        return "the time is by the host's clock, as CUPTI was missing"
    return timing.refused


def _at_one_clock(timing: Timing, model: ClockModel | None) -> tuple[float, float]:
    """Return the time at the reference clock of a model, 0 if it is not known, and its relative error."""
    blocks, normalised_us = timing.blocks_us, 0.0
    if model is not None and timing.sm_clock_mhz:
        at_reference = normalise_blocks(blocks, timing.blocks_mhz, model)
        mean = trimmed_mean(at_reference)
        if mean > 0:
            normalised_us, blocks = mean, tuple(at_reference)
    return normalised_us, standard_error(blocks) / (normalised_us or timing.time_us)
