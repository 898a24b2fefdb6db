"""`gpuperf ncu` and `gpuperf explain FILE` with files as other people have them."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from console_texts import FAILED, LAUNCH, NEW, OLD, section
from ncu_command import all_lines, as_csv, as_json, go_to_captures
from pytest_gpuperf.cli import main

if TYPE_CHECKING:
    from pathlib import Path

HEADER = ["ID", "Kernel Name", "Grid Size", "Block Size", "Device", "CC", "Section Name", "Metric Name"]
DURATION = ("gpu__time_duration.sum", "us", "100.50")


def csv_text(*launches: list[tuple[str, str, str]], name: str = "gemm_f32(float *)", cc: str = "9.0") -> str:
    """Write launches as long CSV: rows of name, unit and value."""
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([*HEADER, "Metric Unit", "Metric Value"])
    for number, rows in enumerate(launches):
        for metric, unit, value in rows:
            facts = [number, name, "(8, 1, 1)", "(128, 1, 1)", "0", cc, "Command line profiler metrics"]
            writer.writerow([*facts, metric, unit, value])
    return stream.getvalue()


def written(folder: Path, text: str, name: str = "file.csv") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def explained(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["explain", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def named(gpu: str, *rows: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    return [DURATION, ("device__attribute_display_name", "", gpu), *rows]


def test_header_names_gpu_and_clock(tmp_path: Path) -> None:
    clock = ("gpc__cycles_elapsed.avg.per_second", "Ghz", "1.41")
    path = written(tmp_path, csv_text(named("NVIDIA A100-SXM4-40GB", clock), cc="8.0"))
    assert all_lines(path)[0] == "NVIDIA A100-SXM4-40GB (compute capability 8.0), SM clock 1410 MHz"
    assert as_json(path)[0]["gpu"] == as_csv(path)[0]["gpu"] == "NVIDIA A100-SXM4-40GB"
    assert explained(path).startswith("NVIDIA A100-SXM4-40GB (compute capability 8.0)")


def test_header_names_the_version_of_ncu(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ncu_report")
    go_to_captures(monkeypatch)
    path = "profiling_pass/report.ncu-rep.gz"
    assert all_lines(path)[0] == "NVIDIA H200 (compute capability 9.0), ncu 2025.3.1.0"
    assert as_json(path)[0]["ncu_version"] == "2025.3.1.0"


def test_comparison_of_two_gpus_says_so(tmp_path: Path) -> None:
    old = written(tmp_path, csv_text(named("Tesla T4"), cc="7.5"), "old.csv")
    new = written(tmp_path, csv_text(named("NVIDIA H100 PCIe")), "new.csv")
    note = (
        "other GPUs: Tesla T4 (compute capability 7.5) is compared with "
        "NVIDIA H100 PCIe (compute capability 9.0)"
    )
    assert note in " ".join(" ".join(all_lines(new, "--compare", old)).split())
    assert note in as_json(new, "--compare", old)["notes"]
    assert as_json(new, "--compare", new)["notes"] == []
    unnamed = written(tmp_path, csv_text([DURATION]), "unnamed.csv")
    assert as_json(new, "--compare", unnamed)["notes"] == []


def test_comparison_names_other_clocks(tmp_path: Path) -> None:
    clock = "gpc__cycles_elapsed.avg.per_second"
    old, new = (
        written(tmp_path, csv_text([DURATION, (clock, "Ghz", value)]), f"{value}.csv")
        for value in ("1.41", "1.75")
    )
    assert as_json(new, "--compare", old)["notes"] == [
        "other clocks: the SMs ran at 1410 MHz in old and 1750 in new"
    ]


def test_json_and_csv_hold_every_metric_of_the_file(tmp_path: Path) -> None:
    others = (
        ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst", "1,024"),
        ("inst_executed", "", "7"),
    )
    path = written(tmp_path, csv_text([DURATION, *others]))
    metrics = as_json(path)[0]["metrics"]
    assert metrics["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == {"value": 1024.0, "unit": "inst"}
    assert (metrics["inst_executed"]["value"], as_csv(path)[0]["inst_executed"]) == (7.0, "7.0")
    assert "not shown: 2 others (--metric NAME, or all with --json and --csv)" in all_lines(path)
    one = all_lines(path, "--metric", others[0][0], "--preset=launch")
    assert "not shown: 1 other (--metric NAME, or all with --json and --csv)" in one


def test_identical_launches_share_a_row(tmp_path: Path) -> None:
    times = ("10.00", "30.00", "12.00")
    path = written(tmp_path, csv_text(*([("gpu__time_duration.sum", "us", time)] for time in times)))
    lines = all_lines(path)
    (row,) = (line for line in lines if line.startswith("#0"))
    assert "#0 gemm_f32 x3" in row
    assert "12.0 µs" in row
    assert "    min 10.0 µs, median 12.0 µs, max 30.0 µs" in lines
    assert any(line.startswith("all 3") and "52.0 µs" in line for line in lines)
    assert len(as_json(path)) == 3
    assert [line.split()[0] for line in all_lines(path, "--each") if line[:1] == "#"] == ["#0", "#1", "#2"]


def test_identical_launches_are_explained_once(tmp_path: Path) -> None:
    rows = [DURATION, ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "12.50")]
    rows.append(("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "%", "85.50"))
    text = explained(written(tmp_path, csv_text(*[rows] * 20)))
    assert text.splitlines()[4].split() == ["gemm_f32", "20", "100", "µs", "100", "µs", "…", "100", "µs"]
    assert text.count("memory-bound") == 1


def test_failed_launch_leaves_the_others_their_values(tmp_path: Path) -> None:
    instructions = "smsp__inst_executed.sum"
    good = [("gpu__time_duration.sum", "us", "30.50"), (instructions, "inst", "1,000")]
    bad = [("gpu__time_duration.sum", "us", "nan"), (instructions, "inst", "(!) nan")]
    more = [("gpu__time_duration.sum", "us", "10.50"), (instructions, "inst", "2,000")]
    texts = [csv_text(rows, name=f"k{n}(int)") for n, rows in enumerate((good, bad, more))]
    body = [
        line.replace('"0","k', f'"{n}","k') for n, text in enumerate(texts) for line in text.splitlines()[1:]
    ]
    path = written(tmp_path, "\n".join([texts[0].splitlines()[0], *body]) + "\n")
    lines = all_lines(path)
    assert "1 of 3 launches failed and count nowhere: #1 k1" in lines
    assert any(line.startswith("#1 k1 failed") for line in lines)
    assert any(line.startswith("2 of 3") and "41.0 µs" in line for line in lines)
    assert [kernel["failed"] for kernel in as_json(path)] == [False, True, False]
    text = explained(path)
    assert [line for line in text.splitlines() if line.startswith("k")] == [
        "kernel     time  share",
        "k0      30.5 µs   74 %",
        "k2      10.5 µs   26 %",
    ]
    assert "1 of 3 launches failed" in text


def test_launches_with_other_metrics_and_no_time_did_not_fail(tmp_path: Path) -> None:
    other = section("Command line profiler metrics", ("dram__bytes_read.sum", "Mbyte", "4.02"))
    path = written(tmp_path, f"{NEW}  saxpy(float *, int) {LAUNCH}\n{other}", "two_runs.txt")
    lines = all_lines(path)
    assert not any("failed" in line for line in lines)
    assert any(line.startswith("1 of 2") and "118 µs" in line for line in lines)
    assert [kernel["failed"] for kernel in as_json(path)] == [False, False]
    text = explained(path)
    assert "saxpy   118 µs  100 %\n" in text
    assert "saxpy\n" in text


@pytest.mark.parametrize(
    "prefix", ["2024-05-01T10:11:12.1234567Z ", "[1,0]<stdout>:", "0: ", "worker-1  | ", "> "]
)
def test_console_text_with_prefixes_of_a_log_is_read(tmp_path: Path, prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in NEW.splitlines())
    plain, prefixed = (as_json(written(tmp_path, one, "log.txt")) for one in (NEW, text))
    assert prefixed == plain


def test_renamed_kernels_are_compared_by_order(tmp_path: Path) -> None:
    old = written(tmp_path, csv_text([DURATION], name="gemm_v1(float *)"), "old.csv")
    new = written(tmp_path, csv_text([("gpu__time_duration.sum", "us", "50.25")], name="gemm_v2(int)"))
    lines = all_lines(new, "--compare", old)
    assert any(line.startswith("#0 gemm_v1 -> #0 gemm_v2") and "-50.0 %  better" in line for line in lines)
    assert "1 renamed: paired by their order" in lines


def test_console_text_is_shown_explained_and_compared(tmp_path: Path) -> None:
    path = written(tmp_path, NEW, "issue.txt")
    assert all_lines(path)[0] == "GPU of compute capability 8.6, SM clock 1410 MHz"
    row = next(line for line in all_lines(path) if line.startswith("#0"))
    assert row.split()[1:6] == ["saxpy", "64x2", "256", "255", "18911232"]
    assert "714" in row  # GB/s
    assert "18911232" in row  # spills
    assert (
        "spilling: warps load or store spilled registers 18.9 million times: a thread needs more"
        in explained(path)
    )
    assert "nothing moved in #0 saxpy" in all_lines(path, "--compare", path)
    assert as_json(path)[0]["metrics"]["dram_gb_per_s"]["value"] == pytest.approx(713.75)


def test_console_text_that_starts_with_a_process_is_explained(tmp_path: Path) -> None:
    path = written(tmp_path, NEW[NEW.index("[828]") :], "issue.txt")
    assert "saxpy   118 µs\n" in explained(path)


def test_errors_of_ncu_next_to_values_are_shown(tmp_path: Path) -> None:
    lines = all_lines(written(tmp_path, FAILED + NEW, "log.txt"))
    assert "ncu reported: LaunchFailed" in lines
    assert "1 of 2 launches failed and count nowhere: #0 render" in lines


def test_locale_is_read_and_named(tmp_path: Path) -> None:
    path = written(tmp_path, csv_text([("gpu__time_duration.sum", "ns", "117.344")]))
    assert as_json(path)[0]["metrics"]["duration_us"]["value"] == pytest.approx(117.344)
    assert "numbers were read with a dot between thousands and a comma before decimals" in all_lines(path)
    assert as_json(written(tmp_path, OLD, "old.txt"))[0]["metrics"]["duration_us"]["value"] == pytest.approx(
        19380
    )


@pytest.mark.parametrize("grouping", ["Kernel Name", "none"])
def test_summary_shows_means_with_their_launches(tmp_path: Path, grouping: str) -> None:
    columns = ["Process ID", grouping, "Device", "CC", "Invocations", "Section Name", "Metric Name"]
    header = ",".join(f'"{one}"' for one in (*columns, "Metric Unit", "Minimum", "Maximum", "Average"))
    facts = '"1","unnamed>::saxpy(float, int)","0","11.0","14","GPU Speed Of Light Throughput"'
    path = written(tmp_path, f'{header}\n{facts},"Duration","us","116.00","118.00","117.00"\n')
    (kernel,) = as_json(path)
    assert kernel["invocations"] == 14
    value = {
        "value": pytest.approx(117),
        "unit": "us",
        "minimum": pytest.approx(116),
        "maximum": pytest.approx(118),
    }
    assert kernel["metrics"]["duration_us"] == value
    lines = all_lines(path)
    assert "values are means over the launches of a kernel (--print-summary)" in lines
    assert "    min 116 µs, mean 117 µs, max 118 µs" in lines
    assert kernel["name"] == ("saxpy" if grouping == "Kernel Name" else "kernels")


BOUND = [
    DURATION,
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "30.50"),
    ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "%", "40.50"),
    ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "%", "0"),
    ("smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "inst", "50.50"),
    ("smsp__average_warp_latency_per_inst_issued.ratio", "cycle", "100.50"),
]


@pytest.mark.parametrize(
    ("cc", "gpu", "has", "lacks"),
    [
        ("9.0", "NVIDIA H100 PCIe", ["TF32", "(cp.async, TMA)"], []),
        ("8.0", "NVIDIA A100-PCIE-40GB", ["TF32", "(cp.async)"], ["TMA"]),
        ("7.5", "Tesla T4", [], ["TF32", "cp.async", "TMA"]),
        ("7.5", "NVIDIA GeForce GTX 1660 Ti", [], ["TF32", "cp.async", "TMA", "tensor-cores-idle"]),
        ("6.1", "Tesla P40", [], ["TF32", "cp.async", "TMA", "tensor-cores-idle"]),
    ],
)
def test_advice_fits_the_chip(tmp_path: Path, cc: str, gpu: str, has: list[str], lacks: list[str]) -> None:
    rows = [*BOUND, ("device__attribute_display_name", "", gpu)]
    text = explained(written(tmp_path, csv_text(rows, cc=cc)))
    assert "memory-latency" in text
    assert [word for word in has if word not in text] == []
    assert [word for word in lacks if word in text] == []


@pytest.mark.parametrize(("cc", "said"), [("9.0", True), ("10.0", True), ("8.6", False), ("7.5", False)])
def test_clusters_are_advice_since_hopper(tmp_path: Path, cc: str, said: bool) -> None:
    rows = [
        DURATION,
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "30.50"),
        ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "%", "90.50"),
        ("lts__throughput.avg.pct_of_peak_sustained_elapsed", "%", "90.50"),
        ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%", "20.50"),
    ]
    text = explained(written(tmp_path, csv_text(rows, cc=cc)))
    assert "fewer bytes through L2" in text
    assert ("multicast in a cluster" in text) is said


@pytest.mark.parametrize(
    ("requests", "instructions", "registers", "spills"),
    [
        ("18,911,232", None, "255", True),
        ("18,911,232", "4,000,000,000", "255", True),
        ("18,911,232", "100,000,000", "128", True),
        ("18,911,232", "4,000,000,000", "128", False),
        ("12", "4,000,000,000", "255", False),
        ("0", None, "255", False),
    ],
)
def test_spill_requests_are_named(
    tmp_path: Path, requests: str, instructions: str | None, registers: str, spills: bool
) -> None:
    rows = [
        DURATION,
        ("derived__local_spilling_requests", "", requests),
        ("launch__registers_per_thread", "register/thread", registers),
    ]
    rows += [("smsp__inst_executed.sum", "inst", instructions)] if instructions else []
    path = written(tmp_path, csv_text(rows))
    assert ("spilling: " in explained(path)) is spills
    assert as_json(path)[0]["metrics"]["local_spill_requests"]["value"] == float(requests.replace(",", ""))


@pytest.mark.parametrize("command", ["ncu", "explain"])
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "denied.csv",
            b"==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM - The user does not have\n",
            "denies hardware counters to this user (ERR_NVGPUCTRPERM); load the driver with NVreg",
        ),
        (
            "app.log",
            b"==ERROR== The application returned an error code (1).\n",
            "has no launch: ncu says: The application returned an error code (1).",
        ),
        (
            "none.txt",
            b"==PROF== Connected to process 1\n==PROF== Disconnected from process 1\n",
            "profiled no kernel",
        ),
        (
            "ncu.log",
            b'==PROF== Profiling "k": 100%\n==PROF== Report: /tmp/k.ncu-rep\n',
            "; gpuperf ncu k.ncu-rep",
        ),
        ("app.nsys-rep", b"\x01\x02", "is a report of Nsight Systems, which has times and no counters"),
        ("app.sqlite", b"SQLite format 3\0" + bytes(90), "is a database of Nsight Systems"),
        ("page.csv", b"<!DOCTYPE html>\n<html>", "is a web page; "),
        ("file.ncu-rep", b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS"),
        ("old.csv", b"==12== NVPROF is profiling process 12\n", "is output of nvprof"),
        ("stats.csv", b"Time (%),Total Time (ns),Instances\n", "is a table of Nsight Systems"),
        ("empty.csv", b"", "empty.csv is empty"),
        ("notes.txt", b"hello\n", "the text has no header of ncu CSV and no section of ncu's console text"),
    ],
)
def test_file_without_launches_gets_one_clear_error(
    tmp_path: Path, command: str, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    result = CliRunner().invoke(main, [command, str(tmp_path / name)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_metrics_of_groups_are_medians(tmp_path: Path) -> None:
    metric = "smsp__inst_executed.sum"
    launches = [[DURATION, (metric, "inst", value)] for value in ("10", "20", "90")]
    lines = all_lines(written(tmp_path, csv_text(*launches)), "--preset=stalls")
    assert "metric        unit  #0 x3  all 3" in lines
    assert "instructions  inst     20    120" in lines


def test_launches_without_a_grid_are_not_grouped(tmp_path: Path) -> None:
    text = "".join(f"  k(int), 2020-Nov-02 19:24:3{n}, Context 1, Stream 7\n" + section("GPU Speed Of Light",
        ("Duration", "usecond", f"{n}.50")) for n in (1, 2))  # fmt: skip
    assert [line.split()[0] for line in all_lines(written(tmp_path, text)) if line[:1] == "#"] == ["#0", "#1"]
