from __future__ import annotations

import cProfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from judging import baseline, verdict
from pytest_gpuperf.judge.limits import parse_limits
from pytest_gpuperf.judge.result import Finding, Status, TestResult
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.records import Measurement, MetricValue, OtherTime, Verification
from pytest_gpuperf.records.baseline import MeasurementBaseline, Session, TestBaseline, TimeBaseline
from run_builders import NODEID, in_turn, measured, origin_of, profile, queued, record, timing

if TYPE_CHECKING:
    from pytest_gpuperf.records import TimingMode, TimingSource


def test_unchanged_test_passes_without_a_message() -> None:
    result = verdict(record(main=measured()), baseline())
    assert (result.status, result.findings, result.message()) == (Status.PASS, (), "")
    assert result.times["main"].decision.change_pct == pytest.approx(0.0)


def test_slower_test_shows_baseline_in_one_line_and_counters_below() -> None:
    now = measured(5.84, {"registers_per_thread": 40.0, "l2_hit_rate": 40.0, "sm_throughput": 50.0})
    known = baseline(5.3, {"registers_per_thread": 32, "l2_hit_rate": 80, "sm_throughput": 50})
    result = verdict(record(main=in_turn(now, 0.098, 0.099)), known)
    assert result.status is Status.REGRESSED
    assert result.message().splitlines() == [
        "gpuperf: 10.4 % slower: 5.29 → 5.84 µs (10.0 to 10.7 %; in turn, 2 restarts, old code c0ffee1)",
        "    l2_hit_rate 80 -> 40 % (-40.0 points)",
        "    registers_per_thread 32 -> 40 (+25.0 %)",
        "    accept it with: gpuperf baseline accept",
    ]


def test_other_kernel_at_the_same_time_passes_with_a_remark() -> None:
    now = measured(5.3, {"registers_per_thread": 40.0}, "square_v2")
    result = verdict(record(main=now), baseline(5.3, {"registers_per_thread": 32}))
    assert result.status is Status.PASS
    assert result.findings == (
        Finding(
            Status.PASS,
            "other kernels run, so exact counters are not judged",
            "main",
            ("now runs square_v2; no longer runs square_kernel", "registers_per_thread 32 -> 40 (+25.0 %)"),
        ),
    )


def test_moved_counter_alone_passes_and_is_shown_with_a_change_of_time() -> None:
    known = baseline(5.3, {"l2_hit_rate": 80})
    assert verdict(record(main=measured(5.3, {"l2_hit_rate": 40.0})), known).findings == ()
    (finding,) = verdict(record(main=in_turn(measured(4.0, {"l2_hit_rate": 40}), -0.3, -0.3)), known).findings
    assert finding.status is Status.IMPROVED
    assert finding.details[0].startswith("l2_hit_rate")


def test_tolerance_of_the_caller_counts() -> None:
    assert verdict(record(main=measured(5.84)), baseline(), tolerance_pct=11.0).status is Status.PASS


def test_test_without_baseline_passes_with_the_next_command() -> None:
    result = verdict(record(main=measured()))
    assert result.status is Status.NEW
    assert result.findings[0].line == "no baseline yet; make one with: gpuperf baseline accept"
    assert not result.status.fails


def baseline_of(mode: TimingMode, source: TimingSource = "events") -> TestBaseline:
    times = TimeBaseline(mode=mode, source=source, sessions=(Session(run="r", time_us=5.3),))
    return TestBaseline(measurements={"main": MeasurementBaseline(time=times)})


@pytest.mark.parametrize("now", [measured(5.3, mode="cold"), queued("")])
def test_time_of_another_requested_mode_is_another_call(now: Measurement) -> None:
    result = verdict(record(main=now), baseline())
    assert result.status is Status.INCONCLUSIVE
    assert result.warning.startswith("inconclusive: another call than the baseline's: mode ")
    assert result.warning.endswith(" instead of hot; accept it with: gpuperf baseline accept")
    assert replace(result, strict=True).message() == f"gpuperf: {result.warning}"


def test_callable_that_can_no_longer_be_captured_fails() -> None:
    result = verdict(record(main=queued("operation not permitted when stream is capturing")), baseline())
    assert result.status is Status.REGRESSED
    assert result.message().splitlines() == [
        "gpuperf: the time was taken queued by events (operation not permitted when stream is capturing), "
        "the baseline's hot by events: not compared",
        "    accept it with: gpuperf baseline accept",
    ]


def test_another_allocator_is_no_regression() -> None:
    now = queued("a graph needs torch's caching allocator, which is not in use")
    origin = origin_of(allocator="PYTORCH_NO_CUDA_MEMORY_CACHING=1")
    found = verdict(record(main=now), baseline(), origin=origin)
    assert found.status is Status.INCONCLUSIVE
    assert "; allocator native -> PYTORCH_NO_CUDA_MEMORY_CACHING=1" in found.warning


def test_time_that_the_baselines_instrument_did_not_measure_is_inconclusive() -> None:
    why = "torch.profiler is running and holds CUPTI"
    now = Measurement(timing=replace(timing(60.0), other=OtherTime(not_recorded=why)))
    result = verdict(record(main=now), baseline_of("hot", "cupti"))
    assert result.status is Status.INCONCLUSIVE
    assert result.findings[0].line == (
        f"the time was taken hot by events ({why}), the baseline's hot by cupti: not compared"
    )


def waiting(time_us: float = 5.3, **fields: Any) -> Measurement:
    """Return a call that waits for the GPU."""
    timed = replace(timing(time_us, "kernels"), source="cupti", not_captured="it synchronises")
    return Measurement(timing=replace(timed, **fields))


KERNELS = baseline_of("kernels", "cupti")


def test_kernel_time_of_a_call_that_waits_is_judged() -> None:
    result = verdict(record(main=waiting(5.84)), KERNELS)
    assert (len(result.suspects), "µs kernels" in result.findings[0].line) == (1, True)


@pytest.mark.parametrize("known", [KERNELS, baseline_of("host", "host"), baseline_of("queued")])
def test_time_of_the_host_in_place_of_cupti_is_never_judged(known: TestBaseline) -> None:
    now = waiting(500, mode="host", source="host", other=OtherTime(not_recorded="torch.profiler holds CUPTI"))
    result = verdict(record(main=now), known)
    assert result.status is Status.INCONCLUSIVE
    assert result.findings[0].line.startswith("the time was taken host by host (it synchronises, ")


def test_older_baseline_of_a_call_that_waits_is_not_a_regression() -> None:
    assert verdict(record(main=waiting()), baseline_of("queued")).status is Status.INCONCLUSIVE
    assert verdict(record(main=waiting()), baseline_of("hot")).status is Status.REGRESSED


def test_wrong_output_is_the_only_message() -> None:
    result = verdict(
        record(main=measured(50.0, correct=False)), baseline(), limits=parse_limits("sm_throughput >= 1")
    )
    assert result.status is Status.WRONG
    assert result.message() == "gpuperf: off by 3 at (0, 1)"


def test_message_names_the_place_of_a_limit() -> None:
    now = measured(5.3, {"memory_throughput": 41.2})
    known = baseline(5.3, {"memory_throughput": 41.2}, limits={"memory_throughput": ">= 70"})
    result = verdict(record(main=now), known, limits=parse_limits("memory_throughput >= 60"))
    assert result.status is Status.LIMIT
    assert [finding.line for finding in result.findings] == [
        "memory_throughput 41.2 is below the limit >= 60 of the test (baseline 41.2)",
        "memory_throughput 41.2 is below the limit >= 70 in baselines/h200/test_square.json (baseline 41.2)",
    ]


def test_limit_is_checked_on_each_label_that_has_the_value() -> None:
    test = record(
        only_timed=measured(1.0),
        a=measured(1.0, {"sm_throughput": 5.0}),
        b=measured(1.0, {"sm_throughput": 50.0}),
    )
    result = verdict(test, limits=parse_limits("sm_throughput >= 10"))
    assert [finding.label for finding in result.findings if finding.status is Status.LIMIT] == ["a"]
    first = result.message().splitlines()[0]
    assert first == "gpuperf: a: sm_throughput 5 is below the limit >= 10 of the test"
    assert result.status is Status.LIMIT


def test_error_comes_first_and_is_not_repeated() -> None:
    result = verdict(
        record(main=measured(5.84)),
        baseline(),
        errors=["no kernel matches 'foo'"],
        limits=parse_limits("sm_throughput >= 1"),
    )
    assert [finding.status for finding in result.findings] == [Status.INVALID, Status.INCONCLUSIVE]
    assert result.message().splitlines()[0] == "gpuperf: no kernel matches 'foo'"


def test_test_ended_by_an_exception_does_not_pass() -> None:
    result = verdict(
        record(main=measured(), failure="RuntimeError"), baseline(), limits=parse_limits("sm_throughput >= 1")
    )
    assert [finding.line for finding in result.findings] == ["the test was ended by RuntimeError"]
    assert result.status is Status.INVALID


@given(st.lists(st.sampled_from(["::error::", ":", "##[error]", "\n", "\r", " ", "\x1b[2J", "\u2028", "x"])))
def test_message_lines_are_printable_and_not_commands(parts: list[str]) -> None:
    text = "".join(parts)
    findings = (Finding(Status.WRONG, text, text, (text,)), Finding(Status.WRONG, "next"))
    lines = TestResult(record(), Status.WRONG, findings).message().split("\n")
    assert all(line.isprintable() for line in lines)
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in lines)
    assert lines[-1] == "gpuperf: next"


@pytest.mark.parametrize(
    ("known", "now", "gone"),
    [
        (baseline(), {}, "time"),
        (baseline(5.3, {"instructions": 5.0}), {"main": measured()}, "counters"),
        (baseline(5.3, {"instructions": 5.0}), {"main": measured(None)}, "time and counters"),
        (baseline(), {"other": measured()}, "time"),
    ],
    ids=["nothing", "no counters", "only a check", "another label"],
)
def test_part_of_the_baseline_that_was_not_measured_fails(
    known: TestBaseline, now: dict[str, Measurement], gone: str
) -> None:
    result = verdict(record(NODEID, "", **now), known)
    assert result.status is Status.INVALID
    assert result.message().splitlines()[:2] == [
        f"gpuperf: {gone} of 'main' in baselines/h200/test_square.json: not measured by this test",
        "    accept it with: gpuperf baseline accept",
    ]


@pytest.mark.parametrize(
    ("why", "warns"), [("no permission", True), ("counters are off (--gpuperf-counters=off)", False)]
)
def test_counters_that_the_machine_lacks_are_not_decided(why: str, *, warns: bool) -> None:
    now = replace(measured(), profile=profile({}, unavailable=why))
    found = verdict(record(main=now), baseline(5.3, {"instructions": 5.0}))
    assert found.status is (Status.INCONCLUSIVE if warns else Status.PASS)
    assert (why in found.warning) is warns


def test_largest_loss_comes_first() -> None:
    sizes = {"a": 0.1, "b": 0.3, "c": 0.2}
    known = TestBaseline(measurements=dict.fromkeys(sizes, baseline().measurements["main"]))
    now = {label: in_turn(measured(9.0), size, size) for label, size in sizes.items()}
    assert [one.label for one in verdict(record(NODEID, "", **now), known).findings] == ["b", "c", "a"]


def test_judging_takes_few_calls() -> None:
    counters: dict[str, MetricValue] = {
        name: 50.0 for name in METRICS if name not in ("occupancy_limiter", "kernels")
    }
    moved: dict[str, MetricValue] = dict.fromkeys(counters, 75.0)
    test, known = record(main=measured(9.0, moved)), baseline(5.3, counters, limits={"time_us": "<= 6"})
    limits = parse_limits(["sm_throughput >= 90"])
    verdict(test, known, limits=limits)
    calls = cProfile.Profile()
    calls.runcall(verdict, test, known, limits=limits)
    # 0.6 ms on one core. A time would depend on other programs.
    assert sum(entry.callcount for entry in calls.getstats()) < 5000


def test_refused_time_is_not_judged() -> None:
    timed = measured(5.3)
    assert timed.timing is not None
    refused = replace(timed.timing, verification=Verification(refused="the time is refused: it skips calls"))
    found = verdict(record(main=replace(timed, timing=refused)), baseline(9.0))
    assert found.status is Status.INVALID
    assert [finding.line for finding in found.findings] == ["the time is refused: it skips calls"]


def test_limit_on_a_value_that_no_label_has_is_one_finding() -> None:
    test = record(a=measured(5.3), b=measured(5.3))
    found = verdict(test, limits=parse_limits(("instructions < 5",)))
    invalid = [finding for finding in found.findings if finding.status is Status.INVALID]
    assert [finding.label for finding in invalid] == ["a"]


@pytest.mark.parametrize("status", list(Status))
def test_strict_verdict_fails_by_inconclusive_too(status: Status) -> None:
    result = TestResult(record(), Status.PASS)
    assert result.fails_by(status) is status.fails
    assert replace(result, strict=True).fails_by(status) is (status.fails or status is Status.INCONCLUSIVE)
