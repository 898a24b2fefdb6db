"""`gpuperf break-even`, on runs with numbers computed by hand."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from inline_snapshot import snapshot
from msgspec.structs import replace

from pytest_gpuperf.cli import main
from pytest_gpuperf.records import KernelProfile, Measurement, Profile, Trace
from pytest_gpuperf.records.runs import RunStore, load_run
from run_builders import measured, record, run, timing

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.records import TestRecord, TimingMode

VIT = "t/test_vit.py::test_"


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def store(project: Path, *tests: TestRecord) -> None:
    RunStore(project / ".gpuperf").write(run(*tests))


def break_even(*args: str) -> Result:
    return CliRunner().invoke(main, ["break-even", "::test_full", "::test_reduced", *args])


def shown(*args: str) -> list[str]:
    result = break_even(*args)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def refused(*args: str) -> str:
    result = break_even(*args)
    assert result.exit_code == 2, result.output
    return result.stderr


def as_json(*args: str) -> Any:
    result = break_even(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def words(line: str) -> list[str]:
    return line.split()


def vit(
    name: str,
    time_us: float,
    gpu_us: float,
    launches: int,
    mode: TimingMode = "host",
    *,
    host_launches: int = 0,
    gap_us: float = 0.0,
    traced_gap_us: float = 0.0,
) -> TestRecord:
    return record(
        VIT + name,
        main=Measurement(
            timing=replace(timing(time_us, mode), launch_gap_us=gap_us),
            trace=Trace(
                launches=launches,
                host_launches=host_launches,
                gpu_time_us=gpu_us,
                launch_gap_us=traced_gap_us,
            ),
        ),
    )


def eager(project: Path) -> None:
    """Store a run with the host as the bound at 224 (8 µs a launch), and the GPU at 448 (3000 µs saved)."""
    store(
        project,
        vit("full[224]", 1000.0, 600.0, 100),
        vit("full[448]", 6000.0, 6000.0, 100),
        vit("reduced[224]", 1200.0, 500.0, 150),
        vit("reduced[448]", 3000.0, 3000.0, 150),
    )


def test_host_cost_is_the_least_time_per_launch(project: Path) -> None:
    eager(project)
    # 8 µs in test_reduced[224]; 10, 60 and 20 in the others. 50 launches take 400 µs; 100 and 3000 are saved.
    # Net -300 and 2600: 224 + 224 * 300 / 2900 = 247.17. Measured -200 and 3000: 224 + 224 * 200 / 3200.
    assert shown() == snapshot(
        [
            "20261120-173012-3f9a: NVIDIA H200, triton 3.6, commit c0ffee1",
            "",
            "size    launches         GPU time     saved     cost       net             time  measured",
            "-----------------------------------------------------------------------------------------",
            "224   100 -> 150    600 -> 500 µs   +100 µs  +400 µs   -300 µs  1.00 -> 1.20 ms   -200 µs",
            "448   100 -> 150  6.00 -> 3.00 ms  +3.00 ms  +400 µs  +2.60 ms  6.00 -> 3.00 ms  +3.00 ms",
            "",
            "calculated: pays above 247.2, interpolated between 224 and 448",
            "measured (host): pays above 238, interpolated between 224 and 448",
            "cost of a launch: 8.00 µs, by the host: the least host time per launch, from",
            "  t/test_vit.py::test_reduced[224]",
        ]
    )


def test_gap_is_the_cost_inside_a_graph(project: Path) -> None:
    store(
        project,
        vit("full[224]", 700.0, 600.0, 100, "hot", gap_us=0.8),
        vit("full[448]", 6100.0, 6000.0, 100, "hot", gap_us=0.8),
        vit("reduced[224]", 650.0, 500.0, 150, "hot", gap_us=0.8),
        vit("reduced[448]", 3100.0, 3000.0, 150, "hot", gap_us=0.8),
    )
    found = as_json()
    assert (found["launch"], found["launch_us"]) == ("graph", 0.8)
    assert [size["net_us"] for size in found["series"][0]["sizes"]] == [60.0, 2960.0]
    assert shown()[-3] == "calculated: pays in all of the measured range (224 to 448)"


def test_cost_can_be_given(project: Path) -> None:
    eager(project)
    assert as_json("--launch", "100")["series"][0]["pays_above"] is None
    assert "calculated: never pays in the measured range (224 to 448)" in shown("--launch", "100")
    assert "cost of a launch: 100 µs, as given" in shown("--launch", "100")


def graphs(project: Path) -> None:
    """Store CUDA graphs with host times."""
    store(
        project,
        vit("full[224]", 650.0, 600.0, 100, host_launches=1, traced_gap_us=0.5),
        vit("full[448]", 6050.0, 6000.0, 100, host_launches=1, traced_gap_us=0.5),
        vit("reduced[224]", 575.0, 500.0, 150, host_launches=2, traced_gap_us=0.5),
        vit("reduced[448]", 3075.0, 3000.0, 150, host_launches=2, traced_gap_us=0.5),
    )


@pytest.mark.parametrize("arguments", [(), ("--launch", "graph")])
def test_graphs_timed_by_the_host_count_nodes_and_traced_gap(
    project: Path, arguments: tuple[str, ...]
) -> None:
    graphs(project)
    found = as_json(*arguments)
    assert (found["launch"], found["launch_us"]) == ("graph", 0.5)
    # 50 nodes of 0.5 µs take 25 µs; 100 and 3000 are saved, and the measured times agree.
    assert [(size["launches_with"], size["net_us"]) for size in found["series"][0]["sizes"]] == [
        (150, 75.0),
        (150, 2975.0),
    ]
    assert [size["measured_us"] for size in found["series"][0]["sizes"]] == [75.0, 2975.0]


def test_given_cost_is_per_node_if_all_are_graphs(project: Path) -> None:
    graphs(project)
    assert [size["cost_us"] for size in as_json("--launch", "2")["series"][0]["sizes"]] == [100.0, 100.0]


def test_graphs_alone_have_no_host_cost(project: Path) -> None:
    graphs(project)
    assert "no test here has a host time and its launches, kernel by kernel" in refused("--launch", "host")


@pytest.mark.parametrize(("given", "cost_us"), [((), -990.0), (("--launch", "8"), -792.0)])
def test_graph_among_eager_calls_is_one_launch(project: Path, given: tuple[str, ...], cost_us: float) -> None:
    store(
        project,
        *(vit(f"full[{size}]", 1000.0, 600.0, 100, host_launches=100) for size in (1, 2)),
        # Counted, this would be the least time per launch.
        *(vit(f"reduced[{size}]", 7.0, 6.0, 100, host_launches=1) for size in (1, 2)),
    )
    assert [size["cost_us"] for size in as_json(*given)["series"][0]["sizes"]] == [cost_us, cost_us]


def test_other_parameters_make_series_of_their_own(project: Path) -> None:
    tests = [
        vit(f"{name}[{size}-{batch}]", 100.0 * size, gpu_us, launches)
        for name, launches, saves in (("full", 10, 0.0), ("reduced", 20, 50.0))
        for size, batch, gpu_us in ((2, 1, 500.0 - saves), (4, 1, 900.0 - 3 * saves), (4, 8, 2000.0 - saves))
    ]
    store(project, *tests)
    assert "choose one: --x 1 (2, 4), --x 2 (1, 8)" in refused()
    # 10 launches of 10 µs (200 µs over 20) take 100 µs; 50 and 150 are saved, so the change pays above 3.
    lines = shown("--x", "1")
    assert "1: calculated: pays above 3, interpolated between 2 and 4" in lines
    assert "8: calculated: never pays in the measured range (4)" in lines


def test_full_profile_counts_launches_without_a_trace(project: Path) -> None:
    def counted(name: str, time_us: float, launches: int, *, regex: str = "", only: str = "") -> TestRecord:
        kernels = (KernelProfile(name="k"),) * launches
        profile = Profile(kernels=kernels, regex=regex, launches=only)
        return record(VIT + name, main=Measurement(timing=timing(time_us), profile=profile))

    sizes = [counted("full[1]", 10.0, 2), counted("full[2]", 40.0, 2)]
    store(project, *sizes, counted("reduced[1]", 9.0, 4), counted("reduced[2]", 20.0, 4))
    # 2 launches of 5 µs take 10 µs; 1 and 20 are saved: 1 + 9 / 19.
    assert as_json("--launch", "5")["series"][0]["pays_above"] == pytest.approx(1 + 9 / 19)
    for some in (counted("reduced[1]", 9.0, 4, regex="top"), counted("reduced[1]", 9.0, 1, only="first")):
        store(project, *sizes, some, counted("reduced[2]", 20.0, 4))
        lines = shown("--launch", "5")
        assert "left out: the launches of t/test_vit.py::test_reduced[1] are not known" in lines
        assert "calculated: pays in all of the measured range (2)" in lines


def test_wrong_result_is_left_out_of_sizes_and_cost(project: Path) -> None:
    eager(project)
    wrong = vit("reduced[896]", 1.0, 1.0, 1000)
    kept = RunStore(project / ".gpuperf")
    whole = load_run(kept.resolve("latest"))
    tests = (*whole.tests, vit("full[896]", 9e4, 9e4, 100), replace(wrong, failure="AssertionError"))
    kept.write(replace(whole, tests=tests))
    found = as_json()
    assert found["launch_us"] == 8.0
    assert [size["size"] for size in found["series"][0]["sizes"]] == [224, 448]
    assert found["left_out"] == ["t/test_vit.py::test_reduced[896] failed or had a wrong result"]


def test_times_of_two_modes_make_no_measured_break_even(project: Path) -> None:
    store(
        project,
        vit("full[224]", 1000.0, 600.0, 100),
        vit("full[448]", 6000.0, 6000.0, 100),
        vit("reduced[224]", 600.0, 500.0, 150, "hot"),
        vit("reduced[448]", 3000.0, 3000.0, 150, "hot"),
    )
    (series,) = as_json("--launch", "host")["series"]
    assert series["measured_pays_above"] is None
    assert [size["measured_us"] for size in series["sizes"]] == [None, None]


def test_csv_has_a_row_for_each_size(project: Path) -> None:
    eager(project)
    rows = list(csv.DictReader(io.StringIO(break_even("--csv").stdout)))
    assert [(float(row["size"]), float(row["net_us"]), row["mode"]) for row in rows] == [
        (224, -300, "host"),
        (448, 2600, "host"),
    ]
    assert float(rows[1]["affordable_launches"]) == 375


def test_markdown_has_the_conclusions_as_a_list(project: Path) -> None:
    eager(project)
    text = break_even("--markdown").stdout
    assert "\n\n| size | launches | GPU time | saved |" in text
    assert "- calculated: pays above 247.2, interpolated between 224 and 448\n" in text


def test_tests_without_a_common_name_are_refused(project: Path) -> None:
    store(project, vit("full[224]", 1.0, 1.0, 1), vit("reduced", 1.0, 1.0, 1))
    assert "do not belong together" in refused()


def test_unknown_launches_times_and_costs_are_named(project: Path) -> None:
    sizes = ("full[224]", "full[448]", "reduced[224]", "reduced[448]")
    store(project, *(record(VIT + name, main=measured(5.0)) for name in sizes))
    assert "no time here has a launch gap" in refused()
    assert "no test here has a host time and its launches" in refused("--launch", "host")
    assert "the launches of t/test_vit.py::test_full[224] are not known" in refused("--launch", "8")
    assert "given as 'much'; expected host, graph or microseconds" in refused("--launch", "much")
    untimed = Measurement(profile=Profile(kernels=(KernelProfile(name="k", metrics={"duration_us": 1.0}),)))
    store(project, *(record(VIT + name, main=replace(untimed, profile=untimed.profile)) for name in sizes))
    assert "the GPU time of t/test_vit.py::test_full[224] is not known" in refused("--launch", "8")
