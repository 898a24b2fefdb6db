from __future__ import annotations

import contextlib
import gzip
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ncu.csv_reader import read_csv
from pytest_gpuperf.features.ncu.details_labels import RAW_NAMES

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
DURATION = "gpu__time_duration.sum"


def capture(name: str) -> str:
    return gzip.decompress((CAPTURES / f"{name}.csv.gz").read_bytes()).decode()


def long(*rows: str) -> str:
    columns = ("ID", "Kernel Name", "Block Size", "Grid Size", "Section Name")
    header = ",".join(f'"{column}"' for column in (*columns, "Metric Name", "Metric Unit", "Metric Value"))
    return "\n".join([header, *rows]) + "\n"


def long_row(value: str, *, unit: str = "", name: str = "some__metric.sum", identifier: int = 0) -> str:
    return f'"{identifier}","kernel","(32, 1, 1)","(4, 2, 1)","Section","{name}","{unit}","{value}"'


def test_wide_csv_gives_base_units_and_plain_numbers() -> None:
    first = read_csv(capture("torch_mixed_raw_wide"))[0]
    assert first.metrics[DURATION] == pytest.approx(64544)
    assert first.units[DURATION] == "ns"
    assert (first.metrics["launch__grid_size"], first.units["launch__grid_size"]) == (8192.0, "")
    assert first.metrics["launch__shared_mem_per_block"] == 1024.0
    assert first.units["launch__shared_mem_per_block"] == "byte/block"
    assert first.metrics["derived__pct_occupancy_per_block_size"] == 5706.0
    assert first.metrics["launch__func_cache_config"] == "CachePreferNone"


def test_wide_and_long_csv_agree_up_to_rounding() -> None:
    wide = read_csv(capture("torch_mixed_raw_wide"))
    details = read_csv(capture("torch_mixed_details_long"))
    assert len(wide) == len(details)
    for one, other in zip(wide, details, strict=True):
        assert (one.name, one.demangled, one.grid, one.block, one.ranges) == (
            *(other.name, other.demangled, other.grid, other.block, other.ranges),
        )
        labels = {name for name in other.metrics if "__" not in name}
        assert other.metrics.keys() - labels <= one.metrics.keys()
        for name, value in other.metrics.items() - {(name, other.metrics[name]) for name in labels}:
            expected = one.metrics[name]
            assert other.units[name] == one.units[name], name
            if isinstance(expected, str):
                assert value == expected
            else:
                # ncu prints two decimals of a number of 1 or more in its unit: an error of at most 0.5 %.
                assert value == pytest.approx(expected, rel=0.005, abs=0.00501), name


def test_labels_of_the_details_page_match_the_report(tmp_path: Path) -> None:
    ncu_report = pytest.importorskip("ncu_report")
    path = tmp_path / "full.ncu-rep"
    path.write_bytes(gzip.decompress((CAPTURES / "triton_square_gemm_set_full.ncu-rep.gz").read_bytes()))
    report = ncu_report.load_report(str(path))
    if not hasattr(report[0][0], "sections"):
        pytest.skip("ncu_report lists the sections from 2026.3 on")
    names = {
        (section.name(), metric.label()): metric.name()
        for section in report[0][0].sections()
        for metric in (*section.header_metrics(), *section.body_metrics())
    }
    known = RAW_NAMES.keys() & names.keys()
    assert {label: RAW_NAMES[label] for label in known} == {label: names[label] for label in known}
    assert len(known) > 50


def test_stalls_of_the_details_page_are_read_by_label() -> None:
    def row(label: str, value: str) -> str:
        return f'"0","kernel","(32, 1, 1)","(4, 2, 1)","Warp State Statistics","{label}","inst","{value}"'

    rows = (row("Warp Cycles Per Issued Instruction", "20"), row("Stall Long Scoreboard", "5"))
    assert read_csv(long(*rows))[0].profile().metrics["stall.long_scoreboard"] == 25.0  # 100 * 5 / 20


def test_rules_of_the_details_page_come_with_their_kernel() -> None:
    first, *others = read_csv(capture("torch_mixed_details_long"))
    assert [(rule.rule, rule.kind, rule.estimated_speedup_pct, rule.scope) for rule in first.rules] == [
        ("SOLBottleneck", "optimization", None, ""),
        ("CPIStall", "warning", None, ""),
        ("CPIStall", "optimization", 49.45, "local"),
        ("CPIStall", "information", None, ""),
        ("AchievedOccupancy", "optimization", 22.84, "local"),
    ]
    assert first.rules[2].section == "WarpStateStats"
    assert first.rules[2].message.startswith("On average, each warp of this workload spends 90.1 cycles")
    assert first.rules[2].message.endswith("of 182.1 cycles between issuing two instructions.")
    scopes = {rule.scope for kernel in others for rule in kernel.rules}
    assert scopes == {"local", "global", ""}


@pytest.mark.parametrize("cells", ['"0","k"', '"0","k","1","2"'])
def test_wide_row_of_another_length_is_refused_with_its_line(cells: str) -> None:
    text = f'"ID","Kernel Name","a__b.sum"\n"","","byte"\n"0","k","1"\n{cells}\n'
    with pytest.raises(GpuperfError, match=r"line 4 .*: \d fields, the header has 3"):
        read_csv(text)


def test_messages_of_ncu_around_the_rows_are_skipped() -> None:
    kernels = read_csv(capture("filtered_long_with_warnings"))
    assert [kernel.metrics[DURATION] for kernel in kernels] == [65984.0, 175040.0, 6080.0]
    assert kernels[0].metrics["sm__throughput.avg.pct_of_peak_sustained_elapsed"] == 6.32
    assert kernels[1].name == "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
    assert kernels[1].ranges == ("suites/gemm.py::test_bf16[4096]",)
    assert {len(kernel.metrics) for kernel in kernels} == {7}


def test_output_of_older_ncu_is_read() -> None:
    header = '"ID","Kernel Name","Kernel Time","Section Name","Metric Name","Metric Unit","Metric Value"'
    row = f'"0","gemm","2024-Nov-13 18:14:36","Command line profiler metrics","{DURATION}","usecond","152.19"'
    kernel = read_csv(f"{header}\n{row}\n")[0]
    assert kernel.grid == (0, 0, 0)
    assert kernel.profile().metrics == {"duration_us": pytest.approx(152.19)}


@pytest.mark.parametrize("text", ["no data", "n/a", "nan", "-nan", "inf", "", "(!) n/a", "9" * 400])
def test_missing_value_is_left_out(text: str) -> None:
    assert read_csv(long(long_row(text)))[0].metrics == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [("65,984", 65984.0), ("1,048,576.50", 1048576.5), ("5706.000000", 5706.0), ("-3", -3.0), ("1e+06", 1e6)],
)
def test_number_is_read_as_printed(text: str, value: float) -> None:
    assert read_csv(long(long_row(text)))[0].metrics == {"some__metric.sum": value}


@pytest.mark.parametrize(
    "text",
    ["2,50,880", "12,50", "-12,50", "2.508.800", "117.344", "1.234,50", "23 982,5", "1\u202f234", "1'234.5"],
)
def test_number_of_another_locale_is_refused(text: str) -> None:
    with pytest.raises(GpuperfError, match=r"line 3 .* is not a number with , between thousands.*LC_ALL=C"):
        read_csv(long(long_row("1"), long_row(text)))


@pytest.mark.parametrize(
    "name",
    [
        "<unnamed>::saxpy_kernel(float, int)",
        "void a::<unnamed>::k<<unnamed>::F, b::<unnamed>::G>(int)",
        "void k<4, <unnamed>::F>(int)",
        "void k<unnamed_type, int>(int)",
    ],
)
def test_brackets_that_a_csv_cuts_are_put_back(name: str) -> None:
    for printed in (name, name.replace("<unnamed>", "unnamed>")):
        text = long(long_row("1").replace("kernel", printed))
        assert read_csv(text)[0].demangled == name


def test_means_of_several_launches_are_refused() -> None:
    text = '"Metric Name","Metric Unit","Minimum","Maximum","Average"\n"a__b.sum","","1.00","3.00","2.00"\n'
    with pytest.raises(GpuperfError, match=r"without --print-summary; .*--page raw --csv"):
        read_csv(text)


def test_header_alone_holds_no_kernels() -> None:
    assert read_csv(long()) == []


def test_wide_csv_without_units_is_an_error() -> None:
    lines = capture("torch_mixed_raw_wide").split("\n")
    with pytest.raises(GpuperfError, match=r"line 2 .* the units come first"):
        read_csv("\n".join([lines[0], *lines[2:]]))


COLUMNS = ("ID", "Kernel Name", "Grid Size", "Metric Name", "Metric Unit", "Metric Value")
words = st.sampled_from([*COLUMNS, "a__b.sum", "1.2.3", "us"])
cells = st.one_of(words, st.text(max_size=4), st.sampled_from(['"', "\r", "(1, 1, 1)", "no data", "7"]))


@given(st.sets(words), st.lists(st.lists(cells, max_size=9), max_size=5))
def test_any_rows_after_a_header_are_read_or_refused(columns: set[str], rows: list[list[str]]) -> None:
    header = ",".join(["ID", "Kernel Name", *columns - {"ID", "Kernel Name"}])
    with contextlib.suppress(GpuperfError):
        read_csv("\n".join([header, *(",".join(row) for row in rows)]))


@given(st.integers(0, len(capture("filtered_long_with_warnings"))))
@example(capture("filtered_long_with_warnings").rindex("8"))
def test_truncated_csv_gives_no_new_values(length: int) -> None:
    text = capture("filtered_long_with_warnings")
    try:
        kernels = read_csv(text[:length])
    except GpuperfError:
        return
    for part, whole in zip(kernels, read_csv(text), strict=False):
        assert part.name == whole.name
        assert part.metrics.items() <= whole.metrics.items()


@pytest.mark.parametrize("word", ["16x16", "2D", "1e", "0x10", "3-way"])
def test_word_that_begins_with_a_digit_stays_a_word(word: str) -> None:
    (kernel,) = read_csv(long(long_row(word)))
    assert kernel.metrics == {"some__metric.sum": word}


def test_list_of_numbers_is_a_word_only_if_ncu_prints_one() -> None:
    (kernel,) = read_csv(long(long_row("1,2,3", name="launch__tpc_enabled")))
    assert kernel.metrics == {"launch__tpc_enabled": "1,2,3"}
    with pytest.raises(GpuperfError, match=r"line 2 .*'1,2,3' is not a number"):
        read_csv(long(long_row("1,2,3")))


@pytest.mark.parametrize("fields", range(1, 8))
def test_row_cut_before_its_value_is_refused_with_its_line(fields: int) -> None:
    row = ['"0"', '"kernel"', '"1"', '"1"', '"Section"', '"some__metric.sum"', '""', "1"][:fields]
    with pytest.raises(GpuperfError, match=f"line 3.*{fields} fields instead of 8 to 8"):
        read_csv(long(long_row("1"), ",".join(row)))


@pytest.mark.parametrize("extent", ["(32, 1)", "32, 1, 1, 1", "(a, b, c)", "(32, 1, 1"])
def test_extent_of_a_block_has_three_numbers(extent: str) -> None:
    row = long_row("1").replace("(32, 1, 1)", extent)
    with pytest.raises(GpuperfError, match="is not an extent like"):
        read_csv(long(row))


@pytest.mark.parametrize(
    ("parts", "capability"), [({"major": "9", "minor": "0"}, "9.0"), ({"major": "9"}, "")]
)
def test_capability_is_that_of_the_device_attributes(parts: dict[str, str], capability: str) -> None:
    names = (f"device__attribute_compute_capability_{name}" for name in parts)
    rows = (("ID", "Kernel Name", *names), ("", "", *[""] * len(parts)), ("0", "k", *parts.values()))
    (kernel,) = read_csv("\n".join(",".join(f'"{cell}"' for cell in row) for row in rows) + "\n")
    assert kernel.compute_capability == capability
