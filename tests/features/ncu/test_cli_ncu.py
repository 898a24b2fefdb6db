"""`gpuperf ncu`, with files from ncu on an H200."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ncu_command import FULL, LONG, WARNINGS, WIDE, as_csv, as_json, needs_ncu_report, run, shown
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.metrics.presets import PRESETS

pytestmark = pytest.mark.usefixtures("in_captures")


@needs_ncu_report
def test_report_has_one_line_per_launch_and_one_for_all() -> None:
    assert shown(FULL, "--rules=none") == snapshot(
        [
            "kernel             grid  block  regs  duration  SOL sm/mem  GB/s  occupancy  top stall",
            "-------------------------------------------------------------------------------------------------",
            "#0 square_kernel   1823    128    22   4.64 µs     11/45 %  1230   55/100 %  long_scoreboard 70 %",  # noqa: E501
            "#1 matmul_kernel  32x32    256   110    201 µs     70/83 %   739    25/25 %  barrier 30 %",
            "#2 matmul_kernel  64x32    256    60    276 µs     52/86 %   572    37/38 %  long_scoreboard 36 %",  # noqa: E501
            "all 3                            110    481 µs     59/84 %   648       32 %  long_scoreboard 34 %",  # noqa: E501
        ]
    )


@pytest.mark.parametrize("columns", [60, 80, 100, 160, 250])
@pytest.mark.parametrize("arguments", [[], ["--preset=sol"], ["--preset=all"], ["--compare", LONG]])
def test_no_line_is_wider_than_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: int, arguments: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for line in shown(WIDE, "--kernel=square|nvjet|Digit", *arguments):
        # Numbers and words are never cut.
        assert len(line) <= max(columns, 82), line


def test_long_names_are_cut_if_a_launch_then_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    lines = shown(WIDE, "--kernel=sm80|nvjet")
    assert lines[2].startswith("#2 nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT ")
    assert re.match(r"#3 sm80_xmma_gemm_f32\S*…\S*cute_kernel__5x_cublas ", lines[3])
    assert lines[4].startswith("all 2")


@needs_ncu_report
def test_rules_are_sorted_by_estimated_speedup() -> None:
    lines = shown(FULL, "--kernel=square")
    start = lines.index("ncu's rules, by estimated speedup (local: of one part of the GPU)")
    assert lines[start + 2] == "#0 square_kernel"
    heads = [line for line in lines[start:] if line.startswith("  ") and not line.startswith("   ")]
    assert [head.partition(":")[0].strip() for head in heads] == [
        "94.1 % local, Low Utilization",
        "55.1 % local, Issue Slot Utilization",
        "55.1 % or 2.56 µs, Long Scoreboard Stalls",
    ]
    assert lines[-1] == "… 14 more rules; --rules=all shows them, and all in full"


def test_all_rules_are_shown_in_full_on_request() -> None:
    text = " ".join(" ".join(shown(LONG, "--kernel=^square", "--rules=all")).split())
    assert "49.5 % local, CPIStall: On average, each warp of this workload spends 90.1 cycles" in text
    assert "49.4% of the total average of 182.1 cycles between issuing two instructions." in text
    assert "optimization, SOLBottleneck: Memory is more heavily utilized than Compute" in text
    assert "--rules" not in text


@needs_ncu_report
def test_preset_is_a_column_for_each_launch() -> None:
    lines = shown(FULL, "--preset=occupancy", "--rules=none")
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["metric", "unit", "#0", "#1", "#2", "all", "3"]
    rows = {line.split()[0]: line.split()[1:] for line in table[2:] if "  " in line.strip()}
    assert rows["achieved_occupancy"] == ["%", "55.0", "24.5", "36.8", "31.8"]
    assert rows["occupancy_limiter"] == ["warps", "registers", "shared_mem", "mixed"]
    assert rows["registers_per_thread"] == ["register", "22", "110", "60", "110"]


def test_named_metric_is_shown_below() -> None:
    lines = shown(WIDE, "--kernel=^square", "--metric=dram__bytes.sum.per_second", "--metric=l2_hit_rate")
    assert "dram__bytes.sum.per_second  byte/s  3784539000000" in lines
    assert "l2_hit_rate                 %                51.2" in lines


@needs_ncu_report
def test_json_is_a_list_of_kernels_with_their_launch_facts() -> None:
    kernels = as_json(FULL, "--preset=launch")
    assert [kernel["name"] for kernel in kernels] == ["square_kernel", "matmul_kernel", "matmul_kernel"]
    first = kernels[0]
    assert first["grid"] == [1823, 1, 1]
    assert first["block"] == [128, 1, 1]
    assert first["ranges"] == ["suites/test_square.py::test_triton[1823-781]"]
    assert first["metrics"]["duration_us"] == {"value": 4.64, "unit": "us"}
    assert first["metrics"]["registers_per_thread"] == {"value": 22.0, "unit": "register"}
    assert list(first["metrics"]) == list(PRESETS["launch"])
    rule = first["rules"][0]
    assert (rule["rule"], rule["kind"]) == ("HighPipeUtilization", "optimization")
    assert rule["title"] == "Low Utilization"
    assert rule["estimated_speedup_pct"] == pytest.approx(94.1086)
    assert rule["scope"] == "local"


def test_without_a_preset_json_has_all_metrics() -> None:
    names = set(as_json(WIDE)[0]["metrics"])
    assert {name for name in METRICS if name.startswith("stall.")} < names
    assert {"launch__block_dim_x", "derived_tempMetric0", "device__attribute_chip"} < names


def test_csv_is_a_row_for_each_launch() -> None:
    rows = as_csv(LONG, "--preset=sol")
    assert len(rows) == 26
    facts = ["launch", "name", "demangled", "grid", "block", "gpu", "compute_capability", "ncu_version"]
    assert list(rows[0])[:10] == [*facts, "failed", "duration_us"]
    assert rows[2]["name"] == "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
    assert rows[2]["grid"] == "2x66x1"
    assert float(rows[0]["duration_us"]) == 64.54


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.csv"], "there is no file gone.csv"),
        ([LONG, "--kernel=a("], "the kernel regex 'a(' asked for is broken"),
        ([LONG, "--kernel=nothing"], f"no kernel of {LONG} matches 'nothing'; it holds square_kernel"),
        ([LONG, "--metric=stall.wait"], f"no kernel of {LONG} has a value for stall.wait"),
        ([LONG, "--compare", WARNINGS, "--kernel=fill"], f"no kernel of {WARNINGS} matches 'fill'"),
        (["README.md"], "README.md has no header of ncu CSV"),
    ],
)
def test_user_errors_are_one_line(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"gpuperf: error: {message}")
    assert result.stderr.count("\n") == 1


def test_control_characters_of_a_file_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "hostile.csv"
    text = gzip.decompress(Path(LONG).read_bytes()).decode()
    path.write_text(
        text.replace("square_kernel", "\x1b[2Jsquare\x07").replace("On average", "\x1b]0;On average")
    )
    for arguments in ([], ["--rules=all"], ["--preset=launch"], ["--compare", WARNINGS]):
        assert "\x1b" not in run(str(path), *arguments).stdout
    assert as_json(str(path))[0]["name"] == "\x1b[2Jsquare\x07"
