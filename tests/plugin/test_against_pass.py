"""Old and new code in turn, with real git, real side processes and a fake GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from against_pass_project import TEST, K, found, kernel, reason, record, ten_microseconds
from pytest_gpuperf.judge.times import ABSENT
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from against_project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return ten_microseconds(tmp_path / "repo")


def test_unchanged_code_passes_and_a_faster_kernel_has_improved(project: Project) -> None:
    other = "from kernels import other\ndef test_o(gpuperf): gpuperf.time(other)\n"
    project.commit({"test_k.py": TEST + other, "kernels.py": kernel(10.0) + "def other(): return 20.0\n"})
    project.write({"kernels.py": kernel(10.0) + "def other(): return 18.0\n"})
    paired = project.compare(K, "test_k.py::test_o")
    decisions = [found(paired, nodeid).decision for nodeid in (K, "test_k.py::test_o")]
    assert [decision and decision.outcome for decision in decisions] == [Outcome.PASS, Outcome.IMPROVED]


TWO = """
from kernels import kernel

def test_k(gpuperf):
    gpuperf.time(kernel, label="a")
    gpuperf.time({}, label="b")
"""


def test_decided_labels_skip_later_restarts(project: Project) -> None:
    project.commit({"test_k.py": TWO.format("lambda: 10.0")})
    project.write({"kernels.py": kernel(1000.0), "test_k.py": TWO.format("lambda: 10.04")})
    paired = project.compare(K, looks=(2, 4), labels=("a", "b"))
    assert [len(found(paired, label=label).restarts) for label in "ab"] == [2, 4]


def test_only_the_suspects_of_a_test_are_timed(project: Project) -> None:
    called = project.root.parent / "called"
    test = TEST + f"    gpuperf.time(lambda: open({str(called)!r}, 'w'), label='other')\n"
    project.commit({"test_k.py": test})
    assert len(found(project.compare(K, looks=(1,))).restarts) == 1
    assert not called.exists()


def test_each_side_goes_first_in_every_other_restart(project: Project) -> None:
    """Check the order of sides: times depend on the side that allocates first."""
    order = project.root.parent / "order"
    note = f"open({str(order)!r}, 'a').write(SIDE)"
    test = TEST.replace("import", "import SIDE,").replace("    gpuperf", f"    {note}\n    gpuperf")
    project.commit({"test_k.py": test, "kernels.py": kernel(10.0) + "SIDE = 'A'"})
    project.write({"kernels.py": kernel(10.0) + "SIDE = 'B'"})
    compared = record(project.compare(K, looks=(4,)))
    assert order.read_text() in ("ABBAABBA", "BAABBAAB")
    assert compared.new_first == tuple(side == "B" for side in order.read_text()[::2])


def test_restarts_share_random_numbers(project: Project) -> None:
    project.commit_test("""
        import random, torch

        def test_k(gpuperf):
            number, other = random.random(), torch.rand()
            gpuperf.time(lambda: number)
            gpuperf.time(lambda: other, label="torch")
        """)
    paired = project.compare(K, looks=(3,), labels=("main", "torch"))
    for label in ("main", "torch"):
        restarts = found(paired, label=label).restarts
        numbers = [{block.time_us for block in restart.blocks} for restart in restarts]
        assert [len(number) for number in numbers] == [1, 1, 1]
        assert len(set.union(*numbers)) == 1


def test_only_one_side_runs_at_a_time(project: Project) -> None:
    witness = project.root.parent / "witness"
    project.commit_test(f"""
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
        """)
    project.compare(f"{K}[1]", looks=(3,))
    lines = witness.read_text().splitlines()
    assert len(lines) > 50
    for begins, ends in zip(lines[::2], lines[1::2], strict=True):
        assert begins.split() == [ends.split()[0], "begins"]


def test_next_restart_imports_while_one_is_timed(project: Project) -> None:
    """Let each test wait until four processes have imported it."""
    witness = project.root.parent / "imports"
    file = f"open({str(witness)!r}, 'a+')"
    waits = f"    while {file}.seek(0, 2) < 4:\n        __import__('time').sleep(0.01)\n"
    project.commit({"test_k.py": f"{file}.write('x')\n" + TEST.replace("    gpuperf", f"{waits}    gpuperf")})
    assert len(found(project.compare(K, looks=(2,))).restarts) == 2


NO_PORT = "import pytest\n@pytest.fixture\ndef port(): raise OSError('Address already in use')\n"


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ("", "there is no such test"),
        ("def test_other(): pass\n", "there is no such test"),
        (f"import gone\n{TEST}", "test_k.py cannot be collected: ModuleNotFoundError: No module named"),
        (NO_PORT + TEST.replace("gpuperf)", "gpuperf, port)", 1), "its setup ended with OSError: Address"),
    ],
    ids=["no file", "no test", "import", "port"],
)
def test_old_code_that_cannot_begin_the_test_has_a_reason(project: Project, test: str, why: str) -> None:
    project.commit({"test_k.py": test})
    if not test:
        project.git("rm", "--quiet", "test_k.py")
        project.commit({})
    project.write({"test_k.py": TEST})
    paired = project.compare(K, looks=(1,))
    assert reason(paired).startswith(f"on {paired.commit} {why}")
    assert (ABSENT.match(reason(paired)) is not None) == ("no such test" in why)
    assert paired.notices == []


TROUBLES = {
    "gpuperf.time(kernel.gone)": "on {} its call ended with AttributeError: ",
    "open('data/weights')": "on {} its call ended with FileNotFoundError: ",
    "raise OSError('Network is unreachable')": "on {} its call ended with OSError: Network is unreachable",
    "gpuperf.time(kernel, label='other')": "not on {}: the test times no 'main' there",
    "gpuperf.time(kernel, bytes=8)": "another call on {}: bytes 8 instead of 0",
    "gpuperf.time(kernel, mode='cold')": "another call on {}: mode cold instead of hot",
    "gpuperf.time(lambda _: 1.0, 7)": "another call on {}: arguments 7 instead of ",
    **{
        f"raise RuntimeError('{error}')": f"on {{}} its call ended with RuntimeError: {error}"
        for error in ("CUDA error: out of memory", "CUDA-capable device(s) is/are busy")
    },
}


def test_trouble_of_the_old_side_has_a_name(project: Project) -> None:
    def tests(bodies: Iterable[str]) -> dict[str, str]:
        each = (f"def test_{number}(gpuperf): {body}\n" for number, body in enumerate(bodies))
        return {"test_k.py": "from kernels import kernel\n" + "".join(each)}

    project.commit(tests(TROUBLES))
    project.write(tests(["gpuperf.time(kernel)"] * len(TROUBLES)))
    nodeids = [f"test_k.py::test_{number}" for number in range(len(TROUBLES))]
    paired = project.compare(*nodeids, looks=(1,))
    for nodeid, why in zip(nodeids, TROUBLES.values(), strict=True):
        assert reason(paired, nodeid).startswith(why.format(paired.commit))


def test_new_code_that_fails_in_a_fresh_process_has_a_reason(project: Project) -> None:
    project.write({"test_k.py": TEST.replace("kernel)", "kernel.gone)")})
    why = "in a fresh process its call ended with AttributeError"
    assert reason(project.compare(K, looks=(1,))).startswith(why)
    with project.engine() as engine:
        blocks, said = engine.fresh(project.timed(K), lambda _: None)
    assert blocks == {}
    assert said.startswith(why)


def test_a_call_other_than_that_of_the_run_is_not_compared(project: Project) -> None:
    project.commit({"test_k.py": TEST.replace("kernel)", "kernel, flops=7)")})
    assert reason(project.compare(K, looks=(1,))) == "another call in a fresh process: flops 7 instead of 0"


def test_what_is_decided_stays_after_the_time_is_spent(project: Project) -> None:
    """End the time in the third restart, after a large change of one label and a small one of the other."""
    project.commit({"test_k.py": TWO.format("lambda: 10.0")})
    project.write({"kernels.py": kernel(12.0), "test_k.py": TWO.format("lambda: 10.03")})
    said: list[str] = []
    paired = project.compare(
        K, labels=("a", "b"), say=said.append, left_s=lambda: 60.0 - 60.0 * ("restart 3" in said[-1])
    )
    assert (decision := found(paired, label="a").decision) is not None
    assert decision.outcome is Outcome.REGRESSED
    assert reason(paired, label="b") == "no time is left"


def test_a_label_that_is_gone_leaves_the_other_ones(project: Project) -> None:
    project.write({"test_k.py": TWO.format("kernel, 1")})
    with project.engine() as engine:
        blocks, why = engine.fresh(project.timed(K, ("a", "b")), lambda _: None)
    assert (list(blocks), len(blocks["a"])) == (["a"], 3)
    assert why.startswith("in a fresh process ")


def test_new_code_by_itself_runs_in_three_processes(project: Project) -> None:
    project.write({"kernels.py": "import os\ndef kernel(): return float(os.getpid())\n"})
    with project.engine() as engine:
        blocks, why = engine.fresh(project.timed(K), lambda _: None)
    assert (len({block.time_us for one in blocks["main"] for block in one}), why) == (3, "")


def test_values_read_between_calls_do_not_end_the_test(project: Project) -> None:
    project.commit_test("""
        def test_k(gpuperf):
            gpuperf.check(print, expected=print)
            assert gpuperf.time(lambda: 10.0, label="a").time_us < 1
            assert gpuperf.profile(print).combined["duration_us"] > 1e9
            assert gpuperf.time(lambda: 20.0, label="b").gb_per_s is None
        """)
    paired = project.compare(K, looks=(1,), labels=("a", "b"))
    assert [record(paired, label=label).new_us for label in "ab"] == [10.0, 20.0]


def test_options_that_stop_or_write_have_no_effect(project: Project) -> None:
    tests = TEST.replace("gpuperf)", "gpuperf, tmp_path)")
    project.commit({"test_k.py": tests})
    basetemp = project.root.parent / "basetemp"
    (basetemp / "kept").mkdir(parents=True)
    options = ("-x", "--pdb", "--lf", "--junitxml=out/x.xml", f"--basetemp={basetemp}")
    ours = ("--gpuperf-update=all", "--gpuperf-against=main")
    paired = project.compare(K, arguments=(*options, *ours), looks=(2,))
    assert len(found(paired).restarts) == 2
    assert (basetemp / "kept").exists()
    assert {path.name for path in project.root.iterdir()}.isdisjoint({"out", "baselines", ".pytest_cache"})


def test_paths_in_the_command_line_are_mapped_to_old_code(project: Project) -> None:
    def marked(name: str) -> dict[str, str]:
        test = "import pytest\n" + TEST.replace("def", f"@pytest.mark.{name}\ndef")
        return {"my.ini": f"[pytest]\nmarkers = {name}\n", "test_k.py": test}

    project.commit(marked("old"))
    project.write(marked("new"))
    arguments = ("-c", f"{project.root}/my.ini", "--strict-markers", f"{project.root}/{K}")
    assert found(project.compare(K, arguments=arguments, looks=(1,))).decision is not None


def test_sides_have_variables_of_their_own(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders for compiled code, compilers without a pool of processes, and no sign for nested runs."""
    monkeypatch.setenv("TRITON_CACHE_DIR", f"{project.root}/.cache/triton")
    project.commit_test("""
        import os

        def test_k(gpuperf):
            assert "GPUPERF_SIDE" not in os.environ
            assert os.environ["TRITON_CACHE_DIR"] == os.path.abspath(".cache/triton")
            threads = float(os.environ["TORCHINDUCTOR_COMPILE_THREADS"])
            gpuperf.time(lambda: 10.0 * threads + ("TORCH_EXTENSIONS_DIR" in os.environ))
        """)
    compared = record(project.compare(K, looks=(1,)))
    assert (compared.old_us, compared.new_us) == (11.0, 10.0)
