from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec.structs import replace

from pytest_gpuperf import metrics as catalogue
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.limits import Limit, check_limit, check_limits, parse_limit, parse_limits
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.metrics.chips import with_peaks
from pytest_gpuperf.records import (
    Conditions,
    GpuInfo,
    KernelProfile,
    Measurement,
    Profile,
    TestRecord,
    Trace,
    Workload,
)
from pytest_gpuperf.records.timing import FirstCall, SingleCall
from pytest_gpuperf.records.value_names import VALUES, is_of
from pytest_gpuperf.session.marker import ItemState, Marker
from run_builders import measured, profile, record, timing

MEMORY = "peak_memory_mb <= 512"
TIMES = [name for name in VALUES if is_of(name, "timing")]
NUMERIC_NAMES = st.sampled_from(
    [*(name for name in catalogue.METRICS if name not in catalogue.WORDS), *TIMES, "dram__bytes.sum"]
)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("memory_throughput >= 60", Limit("memory_throughput", ">=", 60.0)),
        ("stall.barrier<=25%", Limit("stall.barrier", "<=", 25.0)),
        ("  time_us < 5.5 µs ", Limit("time_us", "<", 5.5)),
        ("gb_per_s > 3e3 GB/s", Limit("gb_per_s", ">", 3000.0)),
        ("occupancy_limiter != registers", Limit("occupancy_limiter", "!=", "registers")),
        ("lts__t_sector_hit_rate.pct >= 50 %", Limit("lts__t_sector_hit_rate.pct", ">=", 50.0)),
        ('"wgmma" in tensor_instructions', Limit("tensor_instructions", "in", "wgmma")),
        ("mma.sync not  in tensor_instructions", Limit("tensor_instructions", "not in", "mma.sync")),
        ("sm_90: 'wgmma' in tensor_instructions", Limit("tensor_instructions", "in", "wgmma", "sm_90")),
        ("cublas/my kernel 2>= 1.1", Limit("cublas / my kernel 2", ">=", 1.1)),
        (" a : a  /  pct <1e0 ", Limit("a / pct", "<", 1.0, "a")),
        ("sm_90a: occupancy_limiter == warps", Limit("occupancy_limiter", "==", "warps", "sm_90a")),
    ],
)
def test_limit_is_read(text: str, limit: Limit) -> None:
    assert parse_limit(text) == limit


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("memory_throughput => 60", "cannot be read; .* did you mean >=?"),
        ("memory_throughput >= high", "a number behind memory_throughput"),
        ("memory_throughput >= 1e999", "a number behind memory_throughput"),
        ("memory_throughput >= 60 GB/s", "the unit 'GB/s'"),
        ("time_us <= 3 ms", "the unit 'ms'; expected 'us' or none"),
        ("lts__t_sector_hit_rate.pct >= 50 byte", "'%' or none"),
        ("memory_troughput >= 60", "memory_throughput"),
        ("tim_us <= 3", "time_us"),
        ("occupancy_limiter >= registers", "== or != and a word"),
        ("time_us < " + "1" * 200, "at most 200 characters"),
        ("cublas / mine >= 1.1 us", "the unit 'us'; expected none"),
        ("/ mine >= 1", "cannot be read"),
        ("__import__('os') >= 1", "cannot be read"),
    ],
)
def test_broken_limit_is_refused(text: str, said: str) -> None:
    with pytest.raises(GpuperfError, match=said.replace("(", r"\(")):
        parse_limit(text)


@given(
    st.one_of(
        st.text(),
        st.from_regex(r"[\w.]{1,12} ?(>=|<=|>|<|==|!=) ?[-+.eE\d]{1,8} ?[%\w]{0,3}"),
        st.from_regex(r"[ab:]{0,3} ?/ ?[ab/ ]{1,4}(>=|<) ?\d"),
        st.builds("{} {} {}".format, NUMERIC_NAMES, st.sampled_from([">=", "<"]), st.text(max_size=5)),
    )
)
@example("time_us <= 1e5")
@example("time_us <= -.5e-3us")
@example("sm_90: wgmma not in tensor_instructions")
def test_any_text_is_a_limit_or_an_error(text: str) -> None:
    try:
        limit = parse_limit(text)
    except GpuperfError:
        return
    assert parse_limit(str(limit)) == limit


@pytest.mark.parametrize(
    "limits",
    ["sm_throughput >= 1", ["sm_throughput >= 1"], ("sm_throughput >= 1",), {"sm_throughput": ">= 1"}],
)
def test_limits_are_read_in_each_form(limits: Any) -> None:
    assert parse_limits(limits) == (Limit("sm_throughput", ">=", 1.0),)


def test_limit_on_words_can_be_in_a_dictionary() -> None:
    limits = parse_limits({"wgmma": "in tensor_instructions", "sm_90: spills": "== 0"})
    assert limits == (Limit("tensor_instructions", "in", "wgmma"), Limit("spills", "==", 0.0, "sm_90"))


@pytest.mark.parametrize(
    ("text", "words", "status"),
    [
        ("wgmma in tensor_instructions", "mma.sync wgmma", Status.PASS),
        ("mma in tensor_instructions", "mma.sync wgmma", Status.LIMIT),
        ("wgmma in tensor_instructions", "none", Status.LIMIT),
        ("wgmma not in tensor_instructions", "mma.sync", Status.PASS),
        ("wgmma not in tensor_instructions", "wgmma", Status.LIMIT),
    ],
)
def test_a_word_is_among_the_others_or_not(text: str, words: str, status: Status) -> None:
    outcome = check_limit(parse_limit(text), Measurement(profile=profile({"tensor_instructions": words})))
    assert outcome.status is status
    if status is Status.LIMIT:
        assert outcome.line == f"tensor_instructions {words} breaks the limit {text}"


@pytest.mark.parametrize("limits", [{"sm_throughput": 60}, [60], 60, None, {3: ">= 1"}])
def test_limits_of_a_wrong_type_are_refused(limits: Any) -> None:
    with pytest.raises(GpuperfError):
        ItemState("t.py::t", Marker()).state_limits(limits)


def test_broken_limit_shows_limit_actual_and_baseline() -> None:
    measurement = measured(5.3, {"memory_throughput": 41.2})
    limits = [
        parse_limit(f"memory_throughput {text}") for text in (">= 60", "> 41.2", "<= 40", "< 41", "== 41")
    ]
    limits.append(parse_limit("memory_throughput != 41.2"))
    found = [check_limit(one, measurement, source="of the test", baseline=77.0) for one in limits]
    assert {outcome.status for outcome in found} == {Status.LIMIT}
    assert "\n".join(outcome.line for outcome in found) == snapshot("""\
memory_throughput 41.2 is below the limit >= 60 of the test (baseline 77)
memory_throughput 41.2 is not above the limit > 41.2 of the test (baseline 77)
memory_throughput 41.2 is above the limit <= 40 of the test (baseline 77)
memory_throughput 41.2 is not below the limit < 41 of the test (baseline 77)
memory_throughput 41.2 is not at the limit == 41 of the test (baseline 77)
memory_throughput 41.2 is at the limit != 41.2 of the test (baseline 77)\
""")


@pytest.mark.parametrize(
    "text",
    ["memory_throughput >= 60", "memory_throughput < 60.5", "occupancy_limiter == warps", "time_us <= 5.3"],
)
def test_kept_limit_has_no_message(text: str) -> None:
    measurement = measured(5.3, {"memory_throughput": 60.0, "occupancy_limiter": "warps"})
    outcome = check_limit(parse_limit(text), measurement)
    assert (outcome.status, outcome.line) == (Status.PASS, "")


def test_value_just_below_a_limit_is_shown_with_enough_digits() -> None:
    outcome = check_limit(
        parse_limit("memory_throughput >= 60"), measured(5.3, {"memory_throughput": 59.997})
    )
    assert outcome.line == "memory_throughput 59.997 is below the limit >= 60"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("tensor_core_share >= 40", Status.PASS),
        ("tensor_core_share >= 50", Status.INVALID),
        ("tensor_core_share >= 61", Status.LIMIT),
        ("tensor_core_share <= 50", Status.INVALID),
        ("tensor_core_share <= 60", Status.PASS),
    ],
)
def test_limit_between_what_is_known_and_what_may_be_is_not_judged(text: str, status: Status) -> None:
    trace = Trace(tensor_core_share_pct=40.0, tensor_cores_unknown_pct=20.0)
    outcome = check_limit(parse_limit(text), Measurement(trace=trace))
    assert outcome.status is status
    assert ("is between 40 and 60" in outcome.line) is (status is Status.INVALID)


def test_seconds_of_compilers_and_memory_are_limited() -> None:
    work = Workload(peak_memory_mb=512.5)
    large = Measurement(timing=replace(timing(), first_call=FirstCall(seconds=24.5), work=work))
    seconds, memory = (check_limit(parse_limit(text), large) for text in ("compile_s <= 20", f"{MEMORY} MB"))
    assert seconds.line == "compile_s 24.5 is above the limit <= 20"
    assert memory.line == "peak_memory_mb 512.5 is above the limit <= 512"


def test_share_of_the_peak_is_limited() -> None:
    gpu = GpuInfo(
        name="H200", slug="h200", compute_capability="9.0", dram_gb_per_s=4800.0, multiprocessors=132
    )
    timed = replace(
        timing(1.0, bytes=3_600_000, flops=500_000_000), conditions=Conditions(max_sm_clock_mhz=2000)
    )
    measurement = Measurement(timing=with_peaks(timed, gpu))
    assert check_limit(parse_limit("dram_share >= 75"), measurement).status is Status.PASS
    assert check_limit(parse_limit("dram_share >= 80 %"), measurement).line == (
        "dram_share 75 is below the limit >= 80"
    )
    # 4096 operations in a cycle of each SM.
    share = 100 * 500 / (4096 * 132 * 2000 * 1e-6)
    assert measurement.timing is not None
    assert measurement.timing.peak_share == pytest.approx(share)
    unknown = check_limit(parse_limit("dram_share >= 75"), Measurement(timing=timed))
    assert unknown.status is Status.INVALID
    assert "the peak of this GPU is not known" in unknown.line


@pytest.mark.parametrize(("counted", "status"), [(0, Status.PASS), (12, Status.LIMIT)])
def test_spills_are_counted_if_measured(counted: int, status: Status) -> None:
    found = check_limit(parse_limit("spills == 0"), measured(5.3, {"local_spill_instructions": counted}))
    assert found.status is status


def test_a_bound_of_measured_spills_needs_their_counter() -> None:
    found = check_limit(parse_limit("spills <= 8"), measured(5.3, {"local_spill_instructions": 4}))
    assert (found.status, "local_spill_instructions" in found.line) == (Status.INVALID, True)


def test_limit_with_a_label_is_for_that_one() -> None:
    limit = parse_limit("backward: time_us <= 5")
    assert parse_limit(str(limit)) == limit
    tested = {"forward": measured(9.0), "backward": measured(9.0)}
    (finding,) = check_limits([limit], "of the test", tested, {})
    assert finding.label == "backward"


def test_rate_of_a_copy_is_of_the_bytes_in_its_records() -> None:
    copied = replace(timing(5.0), single_call=SingleCall(copied_bytes=4e4))
    assert (copied.gb_per_s, copied.dram_share) == (8.0, None)


def counted(**more: Any) -> Measurement:
    return Measurement(profile=Profile(combined={"stall.wait": 5.0}, **more))


@pytest.mark.parametrize(
    ("text", "measurement", "said"),
    [
        ("memory_throughput >= 60", measured(5.3), "calls no profile()"),
        ("time_us <= 5", measured(None, {}), "calls no time()"),
        ("launches <= 40", measured(5.3), "calls no trace()"),
        ("gb_per_s >= 5", measured(5.3), "no bytes="),
        ("tflop_per_s >= 5", measured(5.3), "no flops="),
        ("dram__bytes.sum >= 5", measured(5.3, {"dram__bytes.max": 1.0}), "dram__bytes.max"),
        ("occupancy_limiter == warps", measured(5.3, {"occupancy_limiter": 1.0}), "is a number"),
        ("stall.gmma <= 20", counted(chip="gh100"), "does not hold it"),
        ("stall.gmma <= 20", counted(chip="gb202"), "on GB202, so the limit <= 20 is not judged"),
        ("stall.gmma <= 20", counted(unavailable="no ncu"), "measured, so the limit <= 20 is not judged"),
        (MEMORY, measured(5.3), "torch counted nothing, so the limit <= 512 is not judged"),
        ("compile_s <= 20", measured(5.3), "was not watched, so the limit <= 20 is not judged"),
    ],
)
def test_limit_on_a_missing_value_is_not_kept(text: str, measurement: Measurement, said: str) -> None:
    outcome = check_limit(parse_limit(text), measurement)
    assert outcome.status is (Status.PASS if said.endswith("not judged") else Status.INVALID)
    assert said in outcome.line


def test_metric_outside_the_preset_was_not_measured() -> None:
    known = Measurement(profile=Profile(combined={"sm_throughput": 5.0}, preset="sol,launch", chip="gh100"))
    outcome = check_limit(parse_limit("stall.barrier <= 25"), known)
    assert outcome.status is Status.INVALID
    assert outcome.line == (
        "stall.barrier was not measured for the limit <= 25: not measured (preset sol,launch); add it with "
        "metrics= in the marker"
    )
    assert "preset" not in check_limit(parse_limit("l2_throughput <= 25"), known).line


def test_value_of_the_only_kernel_replaces_a_missing_combined_one() -> None:
    alone = Profile(kernels=(KernelProfile(name="k", metrics={"launch__stack_size": 1024.0}),))
    limit = parse_limit("launch__stack_size <= 512")
    assert check_limit(limit, Measurement(profile=alone)).status is Status.LIMIT
    two = Profile(kernels=alone.kernels * 2)
    assert "choose one with kernels=" in check_limit(limit, Measurement(profile=two)).line


@pytest.mark.parametrize(
    ("text", "test", "done"),
    [
        ("sm_90: spills == 0", record(), "measured nothing"),
        ("spills == 0", record(), "measured nothing"),
        ("sm_90: spills == 0", record(main=measured(5.0)), "compiled nothing for sm_90"),
        (
            "square_kernel: dram_throughput >= 9",
            record(main=measured(5.0)),
            "measured nothing for square_kernel; a prefix is a label or an architecture, and kernels= "
            "chooses kernels",
        ),
    ],
)
def test_limit_of_a_test_without_a_value_says_what_is_missing(text: str, test: TestRecord, done: str) -> None:
    (finding,) = check_limits([parse_limit(text)], "of the test", test.measurements, {})
    assert (finding.status, finding.line.rpartition(": the test ")[2]) == (Status.INVALID, done)
