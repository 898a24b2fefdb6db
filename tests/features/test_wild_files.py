"""Files of other tools and launchers, in `tests/wild`: each gives the right numbers, a line, or an error.

All kernels, numbers and names in them are made up.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import gpuperf

WILD = Path(__file__).parents[1] / "wild"
TWO_KERNELS = "20.0 µs of it busy, kernels 20.0 µs in sum trace: 2 launches,"


def said(*arguments: str, code: int = 0) -> str:
    command, file, *others = arguments
    return " ".join(gpuperf(command, str(WILD / file), *others, status=code).output.split())


def metrics_of(file: str) -> dict[str, Any]:
    metrics: dict[str, Any] = json.loads(said("ncu", file, "--json"))[0]["metrics"]
    return metrics


@pytest.mark.parametrize(
    ("command", "file", "expected"),
    [
        ("ncu", "name_cut.csv", ["#0 elementwise_kernel 1024 128 10.0 µs", "#1 draw_kernel 1056 256"]),
        ("ncu", "two_processes.csv", ["min 10.0 µs, median 15.5 µs, max 21.0 µs", "all 4 62.0 µs"]),
        ("ncu", "same_process_again.csv", ["min 10.0 µs, median 15.5 µs, max 21.0 µs", "all 4 62.0 µs"]),
        ("ncu", "appended.csv", ["min 10.0 µs, median 15.5 µs, max 21.0 µs", "all 4 62.0 µs"]),
        ("ncu", "mpirun_prefix.csv", ["min 10.0 µs", "max 11.0 µs", "all 2 21.0 µs"]),
        ("ncu", "mpirun_two_ranks.csv", ["min 10.0 µs", "max 21.0 µs", "all 4 62.0 µs"]),
        ("ncu", "actions_prefix.csv", ["min 10.0 µs", "max 11.0 µs", "all 2 21.0 µs"]),
        ("ncu", "text_then_csv.log", ["as console text of ncu were not read", "all 2 21.0 µs"]),
        ("ncu", "sm_pct_2021.csv", ["#0 axpy 120 µs 31/72 %"]),
        ("ncu", "sol_2020.csv", ["#0 axpy 120 µs 31/72 %"]),
        ("ncu", "all_stalls.csv", ["20/70 % long_scoreboard 73 %"]),
        ("ncu", "other_block_2020.csv", ["#0 axpy 16 10.0 µs #1 axpy 16 30.0 µs all 2 16 40.0 µs"]),
        ("ncu", "nan_counters.csv", ["ncu could not measure 4 counters (nan)"]),
        ("ncu", "items_without_titles.csv", ["left out, for a launch has several values of it: Memory"]),
        ("ncu", "estimated_2023.csv", ["51.9 % or 23.9 ms, SOLBottleneck: Half of the cycles"]),
        ("ncu", "version_utf16.csv", ["ncu 2024.3.2", "#0 k 16 256 10.0 µs"]),
        ("explain", "sm_pct_2021.csv", ["memory-bound: DRAM is at 72 % of its peak"]),
        ("explain", "nan_counters.csv", ["ncu could not measure 4 counters (nan)"]),
        ("explain", "waves_two_digits.csv", ["43 blocks are 52 % of those that the GPU holds at once next:"]),
        ("trace", "zero_timestamps.json", ["210 µs on the GPU", "30.0 µs of it busy", "3 30.0 µs 10.0 µs",
                                           "left out, without a time: 3 gemm"]),
        ("trace", "proton_two_streams.json", ["matmul medium_auxiliary 1 12.0 µs 12.0 µs", "1 3.00 µs"]),
        ("trace", "proton_2026.json", ["kernels 15.0 µs in sum"]),
        ("trace", "graphs_without_kernels.json", ["kernels 1.81 ms in sum trace: 3 launches, tensor",
            "18 of 20 launches of graphs have no recorded kernel: busy and idle time are not known"]),
        ("trace", "longer_than_the_next.json", ["1 kernel overlaps the next in the same stream, ",
                                                "attention_bwd by 1.00 s: a duration is wrong"]),
        ("trace", "backslash.json", [TWO_KERNELS, "not JSON"]),
        ("trace", "quote.json", [TWO_KERNELS, "not JSON"]),
        ("trace", "control_character.json", [TWO_KERNELS, "not JSON"]),
        ("trace", "inf.json", ["20.0 µs of it busy", "2 launches", "1 copy", "not JSON"]),
        ("trace", "byte_order_mark.json", [TWO_KERNELS]),
        ("trace", "epoch_microseconds.json", ["3.30 µs on the GPU", "GPU busy 91 %, gap 0.30 µs"]),
        ("trace", "whole_microseconds.json", ["times are whole µs (torch before 2.4): each is ± 1 µs"]),
    ],
)  # fmt: skip
def test_file_of_another_gives_right_numbers_or_a_line(command: str, file: str, expected: list[str]) -> None:
    text = said(command, file)
    assert [part for part in expected if part not in text] == []


@pytest.mark.parametrize(
    ("command", "file", "expected"),
    [
        ("ncu", "sm_pct_2021.txt", "is text that ncu printed for people"),
        ("trace", "merged_ranks.json", "is merged from the traces of several processes: 100, [rank1] 100"),
        ("trace", "proton_nanoseconds.json", "in a version that may write ns in the place of µs"),
        ("trace", "not_from_torch.json", "is a trace of another tool than torch.profiler; expected a Chrome"),
        ("trace", "no_times.json", "has no time of its 1 activity of a GPU"),
    ],
)
def test_file_that_cannot_be_right_is_refused(command: str, file: str, expected: str) -> None:
    assert expected in said(command, file, code=2)


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("body_items.csv", "Memory Workload Analysis Tables: L1/TEX Cache: Hit Rate", 11.0),
        ("body_items.csv", "Memory Workload Analysis Tables: L2 Cache: Hit Rate", 55.0),
        ("instances.csv", "smsp__inst_executed.sum", 1024.0),
        ("l1_hit_2019.csv", "l1_hit_rate", 41.5),
        ("l1_hit_2019.csv", "l2_hit_rate", 50.25),
        ("l1_hit_2019.csv", "dram_gb_per_s", 300.0),
        ("sol_2020.csv", "Compute Workload Analysis: SM Busy", 9.0),
    ],
)
def test_label_of_the_file_leads_to_its_metric(file: str, name: str, value: float) -> None:
    assert metrics_of(file)[name]["value"] == value


def test_streams_of_tritons_profiler_are_kept() -> None:
    for file in ("proton_2026.json", "proton_two_streams.json"):
        [one] = json.loads(said("trace", file, "--json"))
        assert one["trace"]["streams"] == 2


def test_byte_order_mark_may_follow_the_prefix_of_a_launcher(tmp_path: Path) -> None:
    text = (WILD / "mpirun_prefix.csv").read_text()
    (tmp_path / "marked.csv").write_text(text.replace("<stdout>:", "<stdout>:\ufeff", 1))
    assert "all 2 21.0 µs" in said("ncu", str(tmp_path / "marked.csv"))


def test_files_with_byte_order_marks_may_follow_each_other(tmp_path: Path) -> None:
    both = tmp_path / "both.csv"
    both.write_text(2 * ("\ufeff" + (WILD / "two_processes.csv").read_text()))
    assert "all 8 124 µs" in said("ncu", str(both))


def test_cut_names_are_compared_with_whole_ones(tmp_path: Path) -> None:
    whole = (WILD / "name_cut.csv").read_text().replace(" unnamed>", " <unnamed>")
    (tmp_path / "whole.csv").write_text(whole)
    text = said(
        "ncu", "name_cut.csv", "--compare", str(tmp_path / "whole.csv"), "--kernel", "<unnamed>::draw"
    )
    assert "only in" not in text
    assert "renamed" not in text
