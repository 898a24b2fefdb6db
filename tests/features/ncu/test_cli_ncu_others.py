"""`gpuperf ncu` and `gpuperf explain FILE` with files as other people have them."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest

from command_line import gpuperf
from ncu_command import all_lines, as_csv, as_json

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
    return gpuperf("explain", *arguments, status=0).output


def named(gpu: str, *rows: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    return [DURATION, ("device__attribute_display_name", "", gpu), *rows]


def test_header_names_gpu_and_clock(tmp_path: Path) -> None:
    clock = ("gpc__cycles_elapsed.avg.per_second", "Ghz", "1.41")
    path = written(tmp_path, csv_text(named("NVIDIA A100-SXM4-40GB", clock), cc="8.0"))
    assert all_lines(path)[0] == "NVIDIA A100-SXM4-40GB (compute capability 8.0), SM clock 1410 MHz"
    assert as_json(path)[0]["gpu"] == as_csv(path)[0]["gpu"] == "NVIDIA A100-SXM4-40GB"
    assert explained(path).startswith("NVIDIA A100-SXM4-40GB (compute capability 8.0)")


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
    multiply_adds = ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst", "1,024")
    path = written(tmp_path, csv_text([DURATION, multiply_adds, ("inst_executed", "", "7")]))
    metrics = as_json(path)[0]["metrics"]
    assert metrics["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == {"value": 1024.0, "unit": "inst"}
    assert (metrics["inst_executed"]["value"], as_csv(path)[0]["inst_executed"]) == (7.0, "7.0")


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


def test_renamed_kernels_are_compared_by_order(tmp_path: Path) -> None:
    old = written(tmp_path, csv_text([DURATION], name="gemm_v1(float *)"), "old.csv")
    new = written(tmp_path, csv_text([("gpu__time_duration.sum", "us", "50.25")], name="gemm_v2(int)"))
    lines = all_lines(new, "--compare", old)
    assert any(line.startswith("#0 gemm_v1 -> #0 gemm_v2") and "-50.0 %  better" in line for line in lines)
    assert "1 renamed: paired by their order" in lines


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
        ("8.0", "NVIDIA A100-PCIE-40GB", ["TF32"], []),
        ("7.5", "Tesla T4", [], ["TF32"]),
        ("7.5", "NVIDIA GeForce GTX 1660 Ti", [], ["TF32", "tensor-cores-idle"]),
    ],
)
def test_advice_fits_the_chip(tmp_path: Path, cc: str, gpu: str, has: list[str], lacks: list[str]) -> None:
    rows = [*BOUND, ("device__attribute_display_name", "", gpu)]
    text = explained(written(tmp_path, csv_text(rows, cc=cc)))
    assert "memory-latency" in text
    assert [word for word in has if word not in text] == []
    assert [word for word in lacks if word in text] == []


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
            "ncu.log",
            b'==PROF== Profiling "k": 100%\n==PROF== Report: /tmp/k.ncu-rep\n',
            "; gpuperf ncu k.ncu-rep",
        ),
        ("ncu.log", b'==PROF== Profiling "k" - 0: 0%\n==PROF== Disconnected\n', "is text that ncu printed"),
    ],
)
def test_file_without_launches_gets_one_clear_error(
    tmp_path: Path, command: str, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    result = gpuperf(command, str(tmp_path / name))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_metrics_of_groups_are_medians(tmp_path: Path) -> None:
    metric = "smsp__inst_executed.sum"
    launches = [[DURATION, (metric, "inst", value)] for value in ("10", "20", "90")]
    lines = all_lines(written(tmp_path, csv_text(*launches)), "--preset=stalls")
    assert "metric        unit  #0 x3  all 3" in lines
    assert "instructions  inst     20    120" in lines


LAUNCH = "  k(int *) (4, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 9.0\n"
SECTION = "    Section: GPU Speed Of Light\n    ----------- ---- -----\n"
TITLES = "    Metric Name  Metric Unit  Metric Value\n"


@pytest.mark.parametrize(
    "text",
    [
        f"epoch 1, loss 0.5\n==PROF== Connected to process 1\n{LAUNCH}{SECTION}",
        f"==ERROR== LaunchFailed\n[1] app@127.0.0.1\n{LAUNCH}",
        "".join(f"worker-1  | {line}\n" for line in SECTION.splitlines()),
        TITLES,
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_console_text_is_refused_with_both_commands(tmp_path: Path, text: str, encoding: str) -> None:
    (tmp_path / "issue.txt").write_bytes(text.encode(encoding))
    for command in ("ncu", "explain"):
        result = gpuperf(command, str(tmp_path / "issue.txt"))
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert "issue.txt is text that ncu printed for people" in result.stderr
        assert "`ncu --import FILE --page raw --csv`" in result.stderr
        assert "`ncu --csv`" in result.stderr
