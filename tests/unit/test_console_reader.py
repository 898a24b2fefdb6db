"""Reading the text that ncu prints on a terminal."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from console_texts import FAILED, LAUNCH, NEW, OLD, RULE, SPEED_OF_LIGHT, TITLES, section
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.ncu.console_reader import is_console_text, read_console


def test_launch_has_its_name_extents_and_chip() -> None:
    (kernel,) = read_console(NEW)
    assert (kernel.name, kernel.demangled) == ("saxpy", "void <unnamed>::saxpy<float>(T1 *, int)")
    assert (kernel.grid, kernel.block) == ((64, 2, 1), (256, 1, 1))
    assert (kernel.compute_capability, kernel.device) == ("8.6", 0)


def test_values_are_in_base_units_under_raw_names() -> None:
    metrics = read_console(NEW)[0].metrics
    assert metrics["gpu__time_duration.sum"] == pytest.approx(117980)
    assert metrics["gpc__cycles_elapsed.avg.per_second"] == pytest.approx(1.41e9)
    assert metrics["gpc__cycles_elapsed.max"] == 1166261
    assert metrics["dram__bytes.sum.per_second"] == pytest.approx(713.75e9)
    assert metrics["gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"] == 83.29
    assert metrics["launch__sm_count"] == 82


def test_label_without_a_raw_name_is_kept() -> None:
    assert read_console(NEW)[0].metrics["Memory Workload Analysis: L2 Compression Ratio"] == 0


def test_paragraph_of_a_rule_is_read_with_its_estimate() -> None:
    (rule,) = read_console(NEW)[0].rules
    assert (rule.kind, rule.estimated_speedup_pct, rule.scope) == ("optimization", 22.84, "local")
    assert rule.message == "Too few warps. See the guide."


def test_text_of_2020_in_a_european_locale_is_read() -> None:
    notes: list[str] = []
    (kernel,) = read_console(OLD, notes)
    short = kernel.profile().metrics
    assert kernel.name == "partial_sum"
    assert short["duration_us"] == pytest.approx(19380)
    assert short["elapsed_cycles"] == 23982976
    assert short["sm_clock_mhz"] == pytest.approx(1240)
    assert (short["sm_throughput"], short["memory_throughput"], short["dram_throughput"]) == (
        1.63,
        23.27,
        23.27,
    )
    assert notes == ["numbers were read with a dot between thousands and a comma before decimals"]


@pytest.mark.parametrize("text", [NEW, OLD])
@pytest.mark.parametrize("prefix", ["> ", ">", "> > "])
def test_quoted_text_in_a_fence_reads_the_same(text: str, prefix: str) -> None:
    quoted = "".join(f"{prefix}{line}\n" for line in f"```\n{text}```\nthanks".splitlines())
    assert read_console(quoted) == read_console(text)


def test_rows_without_their_columns_are_read_by_words() -> None:
    collapsed = "\n".join(" ".join(line.split()) for line in NEW.splitlines())
    assert read_console(collapsed)[0].metrics == read_console(NEW)[0].metrics


def test_metrics_by_raw_name_are_read() -> None:
    text = f"  k {LAUNCH}\n" + section(
        "Command line profiler metrics",
        ("launch__barrier_count", "", "1"),
        ("sm__inst_executed.sum", "inst", "1,015,808"),
        ("dram__bytes_read.sum", "Mbyte", "9.45"),
        ("dram__throughput.wrong", "", "(!) n/a"),
    )
    (kernel,) = read_console(text)
    assert kernel.metrics == {
        "launch__barrier_count": 1.0,
        "sm__inst_executed.sum": 1015808.0,
        "dram__bytes_read.sum": pytest.approx(9.45e6),
    }
    assert kernel.not_finite == 0


def test_table_without_a_launch_gets_the_profiled_name() -> None:
    assert [kernel.name for kernel in read_console(SPEED_OF_LIGHT)] == ["unnamed"]
    text = '==PROF== Profiling "gemm" - 0: 0%....100% - 3 passes\n' + SPEED_OF_LIGHT
    assert [kernel.name for kernel in read_console(text)] == ["gemm"]


def test_tables_get_the_profiled_names_in_their_order() -> None:
    names = [f'==PROF== Profiling "{name}" - 0: 0%....100% - 3 passes\n' for name in ("gemm", "sum")]
    found = read_console("".join(names) + 3 * SPEED_OF_LIGHT)
    assert [kernel.name for kernel in found] == ["gemm", "sum", "unnamed"]
    found = read_console(names[0] + 2 * SPEED_OF_LIGHT)
    assert [kernel.name for kernel in found] == ["gemm", "gemm"]


def test_digits_that_are_not_a_number_are_an_error_with_their_line() -> None:
    text = section("Launch Statistics", ("Registers Per Thread", "register/thread", "1.2.3"))
    with pytest.raises(GpuperfError, match=r"line 5 .*'1\.2\.3' is not a number"):
        read_console(text)


def test_repeated_section_begins_a_launch() -> None:
    assert len(read_console(SPEED_OF_LIGHT + SPEED_OF_LIGHT)) == 2


def test_repeated_section_of_a_launch_is_counted() -> None:
    notes: list[str] = []
    assert len(read_console(f"  k {LAUNCH}\n{SPEED_OF_LIGHT}{SPEED_OF_LIGHT}", notes)) == 1
    assert notes[0].startswith("9 lines in tables were not read, the first: DRAM Frequency")


def test_advice_of_a_rule_is_no_metric() -> None:
    rule = "    ---------------- -------- --------------------"
    titles = "    Metric Name      Value    Guidance"
    advice = f"{rule}\n{titles}\n{rule}\n    Duration         12.5     Decrease the time\n{rule}\n\n"
    notes: list[str] = []
    (kernel,) = read_console(
        f"  k {LAUNCH}\n{SPEED_OF_LIGHT}{advice}" + NEW[NEW.index("    Section: Launch") :], notes
    )
    assert kernel.metrics["gpu__time_duration.sum"] == pytest.approx(117980)
    assert kernel.metrics["launch__registers_per_thread"] == 255
    assert notes == []


def test_ranges_above_the_sections_belong_to_the_launch() -> None:
    (kernel,) = read_console(f"  k {LAUNCH}\n  <0,forward>\n  <1,layer 3>\n{SPEED_OF_LIGHT}  <2,later>\n")
    assert kernel.ranges == ("forward", "layer 3")


def test_table_ends_the_paragraph_of_a_rule() -> None:
    table = SPEED_OF_LIGHT.partition("\n")[2]
    (kernel,) = read_console(f"  k {LAUNCH}\n    Section: Occupancy\n    OPT   Too few warps.\n{table}")
    assert [rule.message for rule in kernel.rules] == ["Too few warps."]


def test_next_launch_ends_the_paragraph_of_a_rule() -> None:
    rule = "    OPT   Too few warps.\n"
    kernels = read_console(f"  k {LAUNCH}\n{SPEED_OF_LIGHT}{rule}  k {LAUNCH}\n{SPEED_OF_LIGHT}")
    assert [len(kernel.rules) for kernel in kernels] == [1, 0]


def test_missing_values_are_read_by_words_too() -> None:
    rows = (("a__b.sum", "byte", "no data"), ("c__d.sum", "", "(!) n/a"), ("e__f.sum", "inst", "3"))
    text = f"  k {LAUNCH}\n" + section("Command line profiler metrics", *rows)
    notes: list[str] = []
    (kernel,) = read_console("\n".join(" ".join(line.split()) for line in text.splitlines()), notes)
    assert (kernel.metrics, notes) == ({"e__f.sum": 3.0}, [])


def test_unit_of_a_row_is_found_by_its_column() -> None:
    text = f"  k {LAUNCH}\n" + section("Command line profiler metrics", ("a__b.sum", "furlong", "3"))
    (kernel,) = read_console(text)
    assert (kernel.metrics, kernel.units) == ({"a__b.sum": 3.0}, {"a__b.sum": "furlong"})


def test_launch_whose_own_line_is_missing_has_no_extents() -> None:
    (kernel,) = read_console(SPEED_OF_LIGHT)
    assert (kernel.grid, kernel.block) == ((0, 0, 0), (0, 0, 0))


def test_name_on_a_line_of_its_own_belongs_to_the_launch() -> None:
    assert read_console(f"  k(float *)\n  {LAUNCH}\n" + SPEED_OF_LIGHT)[0].name == "k"


def test_summary_holds_means_and_extremes() -> None:
    rule = "    ---------- ----------- ------- ------- -------"
    titles = "    Metric Name Metric Unit Minimum Maximum Average"
    text = (
        "  k(int) (4, 1, 1)x(32, 1, 1), Device 0, CC 11.0, Invocations 14\n"
        f"    Section: GPU Speed Of Light Throughput\n{rule}\n{titles}\n{rule}\n"
        f"    Duration            us  116.00  118.00  117.00\n{rule}\n"
    )
    (kernel,) = read_console(text)
    assert (kernel.invocations, kernel.compute_capability) == (14, "11.0")
    assert kernel.metrics == {"gpu__time_duration.sum": pytest.approx(117000)}
    assert kernel.extremes == {"gpu__time_duration.sum": pytest.approx((116000, 118000))}


def test_failed_launch_has_no_values() -> None:
    (kernel,) = read_console(FAILED)
    assert (kernel.metrics, kernel.not_finite) == ({}, 2)


def test_metrics_that_the_gpu_lacks_are_no_failure() -> None:
    notes: list[str] = []
    text = f"  k {LAUNCH}\n" + section("Command line profiler metrics", ("dram__bytes.wrong", "", "(!) n/a"))
    (kernel,) = read_console(text, notes)
    assert (kernel.metrics, kernel.not_finite) == ({}, 0)
    assert notes == ["no metric has a value: ncu does not have them on this GPU"]


def test_what_the_text_lacks_is_counted() -> None:
    profiled = "".join(f'==PROF== Profiling "k" - {n}: 0%....100% - 3 passes\n' for n in range(3))
    cut = "\n".join(
        [f"  k {LAUNCH}", "    Section: Occupancy", RULE, TITLES, RULE, "    Block Limit SM  block  8"]
    )
    notes: list[str] = []
    read_console(profiled + cut, notes)
    assert notes == [
        "ncu profiled 3 launches, the text has the values of 1",
        "the text ends in the middle of a table",
    ]


def test_text_without_a_value_is_an_error() -> None:
    text = f"  k {LAUNCH}\n"
    assert is_console_text(text)
    with pytest.raises(GpuperfError, match="has no launch with a value"):
        read_console(text)


def test_prose_is_not_console_text() -> None:
    assert not is_console_text("In this Section: we read\nContext 1\n```\n---- ----\n```\n")
    assert not is_console_text("Table Name: fruit\nSection 3\n")
    assert is_console_text("    Section: Occupancy\n")


LINES = [*NEW.splitlines(), *OLD.splitlines(), *FAILED.splitlines()]


@given(st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=30)), max_size=25))
@example([f"{'-' * 3} {'-' * 3} {'-' * 3}", "a"])
def test_any_lines_are_read_or_refused(lines: list[str]) -> None:
    with contextlib.suppress(GpuperfError):
        read_console("\n".join(lines))
