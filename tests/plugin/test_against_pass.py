"""Old and new code in turn, with real git, real side processes and a fake GPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from against_pass_project import TEST, K, found, kernel, log, reason, ten_microseconds
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from against_project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return ten_microseconds(tmp_path / "repo")


def test_five_percent_slowdown_regresses_after_four_restarts(project: Project) -> None:
    project.write({"kernels.py": kernel(10.5)})
    result = found(project.compare(K))
    assert result.decision is not None
    assert result.decision.outcome is Outcome.REGRESSED
    assert result.decision.change_pct == pytest.approx(5.0)
    assert (result.record.old_us, result.record.new_us) == (10.0, 10.5)
    assert len(result.record.log_ratios) == len(result.restarts) == 4
    assert project.leftovers() == []


def test_unchanged_code_passes_and_a_faster_kernel_has_improved(project: Project) -> None:
    other = "from kernels import other\ndef test_o(gpuperf): gpuperf.time(other)\n"
    project.commit({"test_k.py": TEST + other, "kernels.py": kernel(10.0) + "def other(): return 20.0\n"})
    project.write({"kernels.py": kernel(10.0) + "def other(): return 18.0\n"})
    paired = project.compare(K, "test_k.py::test_o")
    decisions = [found(paired, nodeid).decision for nodeid in (K, "test_k.py::test_o")]
    assert [decision and decision.outcome for decision in decisions] == [Outcome.PASS, Outcome.IMPROVED]
    assert found(paired).record.comparisons == 2


def test_decided_tests_skip_later_restarts(project: Project) -> None:
    restless = "test_k.py::test_restless"
    calls = """
from kernels import other

def test_restless(gpuperf):
    gpuperf.time(kernel, label="steady")
    gpuperf.time(other)
"""
    project.commit({"test_k.py": TEST + calls, "kernels.py": kernel(10.0) + "def other(): return 10.0\n"})
    # A single restart can detect a factor of 33: t has 2 degrees of freedom, at the first of three looks.
    counting = f"""
def kernel(): return 1000.0
with open({str(project.root.parent / "restarts")!r}, "a+") as restarts:
    restarts.write("x")
    restarts.seek(0)
    time_us = (9.0, 11.0, 9.0)[len(restarts.read()) - 1]
def other(): return time_us
"""
    project.write({"kernels.py": counting})
    paired = project.compare(K, restless, looks=(1, 2, 3))
    assert [len(found(paired, restless, label).record.log_ratios) for label in ("steady", "main")] == [1, 3]
    assert len(found(paired).record.log_ratios) == 1
    assert re.findall(r"^=+ (\d) passed", log(project, "new"), re.MULTILINE) == ["2", "1", "1"]


def test_each_side_goes_first_in_every_other_restart(project: Project) -> None:
    """Check the order of sides: times depend on the side that allocates first."""
    order = project.root.parent / "order"
    test = f"""
from kernels import SIDE, kernel

def test_k(gpuperf):
    with open({str(order)!r}, "a") as file:
        file.write(SIDE)
    gpuperf.time(kernel)
"""
    project.commit({"test_k.py": test, "kernels.py": kernel(10.0) + "SIDE = 'A'"})
    project.write({"kernels.py": kernel(10.0) + "SIDE = 'B'"})
    record = found(project.compare(K, looks=(4,))).record
    assert order.read_text() in ("ABBAABBA", "BAABBAAB")
    assert record.new_first == tuple(side == "B" for side in order.read_text()[::2])


def test_each_restart_has_new_processes(project: Project) -> None:
    project.commit({"kernels.py": "import os\ndef kernel(): return float(os.getpid())\n"})
    result = found(project.compare(K, looks=(3,)))
    processes = {block.time_us for blocks in result.restarts for block in blocks}
    assert len(processes) == 6
    assert {block.sm_clock_mhz for blocks in result.restarts for block in blocks} == {1980.0}


def test_restarts_share_random_numbers(project: Project) -> None:
    project.commit(
        {
            "test_k.py": """
            import random, torch

            def test_k(gpuperf):
                number, other = random.random(), torch.rand()
                gpuperf.time(lambda: number)
                gpuperf.time(lambda: other, label="torch")
            """
        }
    )
    paired = project.compare(K, looks=(3,))
    for label in ("main", "torch"):
        numbers = [{block.time_us for block in blocks} for blocks in found(paired, label=label).restarts]
        assert [len(number) for number in numbers] == [1, 1, 1]
        assert len(set.union(*numbers)) == 1


def test_only_one_side_runs_at_a_time(project: Project) -> None:
    witness = project.root.parent / "witness"
    project.commit(
        {
            "test_k.py": f"""
            import os, time, pytest

            def note(what):
                with open({str(witness)!r}, "a") as stream:
                    stream.write(f"{{os.getpid()}} {{what}}\\n")

            def kernel():
                note("begins")
                time.sleep(0.01)
                note("ends")
                return 10.0

            @pytest.fixture
            def tensor():
                kernel()
                yield
                kernel()

            @pytest.mark.parametrize("n", range(3))
            def test_k(gpuperf, tensor, n):
                gpuperf.time(kernel)
            """
        }
    )
    project.compare(*(f"{K}[{n}]" for n in range(3)), looks=(1,))
    lines = witness.read_text().splitlines()
    assert len(lines) > 100
    for begins, ends in zip(lines[::2], lines[1::2], strict=True):
        assert begins.split() == [ends.split()[0], "begins"]


def test_both_sides_keep_the_order_of_the_run(project: Project) -> None:
    tests = "".join(f"def test_{name}(gpuperf): gpuperf.time(lambda: 10.0)\n" for name in "abc")
    project.commit({"test_k.py": tests})
    project.write({"test_k.py": "".join(reversed(tests.splitlines(keepends=True)))})
    paired = project.compare(*(f"test_k.py::test_{name}" for name in "cba"), looks=(1,))
    assert [bool(found(paired, f"test_k.py::test_{name}").decision) for name in "abc"] == [True] * 3


def test_a_new_test_is_not_compared(project: Project) -> None:
    project.write({"test_k.py": TEST + "def test_new(gpuperf): gpuperf.time(kernel)\n"})
    project.write({"test_more.py": TEST})
    paired = project.compare(K, "test_k.py::test_new", "test_more.py::test_k", looks=(1,))
    commit = str(paired.commit)
    assert reason(paired, "test_k.py::test_new") == f"not on {commit}"
    assert reason(paired, "test_more.py::test_k") == f"not on {commit}"
    assert found(paired).decision is not None
    assert not found(paired, "test_k.py::test_new").record.broken
    assert paired.notices == []


def test_entirely_new_suite_is_not_compared(project: Project) -> None:
    project.write({"test_more.py": TEST})
    paired = project.compare("test_more.py::test_k", arguments=("test_more.py",))
    assert reason(paired, "test_more.py::test_k").startswith("not on main")


def test_file_that_old_code_cannot_import_is_reported(project: Project) -> None:
    project.commit({"test_k.py": "import a_package_that_is_gone\n" + TEST, "test_more.py": TEST})
    project.write({"test_k.py": TEST})
    paired = project.compare(K, "test_more.py::test_k", looks=(1,))
    assert reason(paired) == (
        f"test_k.py cannot be collected on {paired.commit}: "
        "ModuleNotFoundError: No module named 'a_package_that_is_gone'"
    )
    assert found(paired, "test_more.py::test_k").decision is not None


def test_a_test_that_fails_on_one_side_is_not_compared(project: Project) -> None:
    failing = TEST.replace("gpuperf.time(kernel)", "raise ValueError(__file__)")
    project.commit({"test_k.py": failing, "test_more.py": TEST})
    project.write({"test_k.py": TEST, "test_more.py": failing})
    paired = project.compare(K, "test_more.py::test_k")
    assert reason(paired) == f"on {paired.commit} its call ended with ValueError: test_k.py"
    assert reason(paired, "test_more.py::test_k") == (
        "when it was to be compared, its call ended with ValueError: test_more.py"
    )


def test_values_read_between_calls_do_not_end_the_test(project: Project) -> None:
    project.commit(
        {
            "test_k.py": """
            def test_k(gpuperf):
                gpuperf.check(print, expected=print)
                assert gpuperf.time(lambda: 10.0, label="a").time_us < 1
                assert gpuperf.profile(print).combined["duration_us"] > 1e9
                assert gpuperf.time(lambda: 20.0, label="b").gb_per_s is None
            """
        }
    )
    paired = project.compare(K, looks=(1,))
    assert [found(paired, label=label).record.new_us for label in "ab"] == [10.0, 20.0]


def test_options_that_stop_or_write_have_no_effect(project: Project) -> None:
    tests = TEST.replace("gpuperf)", "gpuperf, tmp_path)") + "def test_fails(gpuperf): assert False\n"
    project.commit({"test_k.py": tests})
    basetemp = project.root.parent / "basetemp"
    (basetemp / "kept").mkdir(parents=True)
    paired = project.compare(
        "test_k.py::test_fails",
        K,
        arguments=(
            *("-x", "--pdb", "--lf", "--junitxml=out/x.xml", f"--basetemp={basetemp}"),
            *("--gpuperf-update=all", "--gpuperf-against=main"),
        ),
        looks=(2,),
    )
    assert len(found(paired).record.log_ratios) == 2
    assert (basetemp / "kept").exists()
    assert {path.name for path in project.root.iterdir()}.isdisjoint({"out", "baselines"})


def test_paths_in_the_command_line_are_mapped_to_old_code(project: Project) -> None:
    def marked(name: str) -> dict[str, str]:
        test = "import pytest\n" + TEST.replace("def", f"@pytest.mark.{name}\ndef")
        return {"my.ini": f"[pytest]\nmarkers = {name}\n", "test_k.py": test}

    project.commit(marked("old"))
    project.write(marked("new"))
    arguments = ("-c", f"{project.root}/my.ini", "--strict-markers", f"{project.root}/{K}")
    assert found(project.compare(K, arguments=arguments, looks=(1,))).decision is not None


def test_inline_extensions_are_built_separately(project: Project) -> None:
    project.commit(
        {
            "test_k.py": """
            import os

            def test_k(gpuperf):
                gpuperf.time(lambda: 10.0 + ("TORCH_EXTENSIONS_DIR" in os.environ))
            """
        }
    )
    record = found(project.compare(K, looks=(1,))).record
    assert (record.old_us, record.new_us) == (11.0, 10.0)


def test_nested_pytest_is_not_a_side_process(project: Project) -> None:
    project.commit(
        {
            "test_k.py": """
            import os

            def test_k(gpuperf):
                assert "GPUPERF_SIDE" not in os.environ
                gpuperf.time(lambda: 10.0)
            """
        }
    )
    assert found(project.compare(K, looks=(1,))).decision is not None
