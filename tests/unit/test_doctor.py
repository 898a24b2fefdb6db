"""`gpuperf doctor`: the page, its JSON, exit status and facts about the machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from doctor_builders import DRIVER, machine, shadow, system_file, without_gpu
from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.cli import doctor, main
from pytest_gpuperf.cli.doctor import check
from pytest_gpuperf.cli.doctor.machine import Machine, Torch
from pytest_gpuperf.errors import GpuperfError
from run_builders import one_test

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.cli.doctor.check import CheckResult


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty project on a machine without facts."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def only(monkeypatch: pytest.MonkeyPatch, **findings: CheckResult) -> None:
    """Replace all checks."""
    probes = {name: lambda _, found=found: found for name, found in findings.items()}
    monkeypatch.setattr(doctor, "PROBES", {"theme": probes})


def run_doctor(*args: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *args], env={"COLUMNS": "60"})


def test_page_has_a_line_for_each_check(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(
        monkeypatch,
        clocks=check.ok("SM 345 of 1980 MHz"),
        persistence=check.warning("off", "sudo nvidia-smi -pm 1"),
        ncu=check.absent("no GPU"),
    )
    result = run_doctor()
    assert result.output.splitlines() == [
        "theme",
        "  clocks       ok       SM 345 of 1980 MHz",
        "  persistence  warning  off",
        "                        -> sudo nvidia-smi -pm 1",
        "  ncu          absent   no GPU",
        "",
        "1 warning, 1 ok, 1 absent",
    ]
    assert result.exit_code == 0


def test_long_text_is_wrapped_below_itself(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, disk=check.ok(" ".join(["word"] * 30)))
    first, second, *_ = run_doctor().output.splitlines()[1:]
    assert first.startswith("  disk  ok  word word")
    assert second.startswith("            word")
    assert len(first) <= 60


def test_markup_is_shown_as_text(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, disk=check.ok("[bold]x[/bold] \x1b[31m"))
    assert "  disk  ok  [bold]x[/bold] \N{REPLACEMENT CHARACTER}[31m" in run_doctor().output


def test_problem_is_the_exit_status(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, ncu=check.problem("bad"), mig=check.problem("bad"), ecc=check.warning("so so"))
    result = run_doctor()
    assert result.exit_code == 1
    assert result.output.endswith("2 problems, 1 warning\n")
    assert run_doctor("--json").exit_code == 1


def test_json_is_a_list_of_checks_with_the_same_keys(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, persistence=check.warning("off", "sudo nvidia-smi -pm 1"), ecc=check.ok("on"))
    assert json.loads(run_doctor("--json").output) == [
        {
            "theme": "theme",
            "name": "persistence",
            "state": "warning",
            "text": "off",
            "fix": "sudo nvidia-smi -pm 1",
        },
        {"theme": "theme", "name": "ecc", "state": "ok", "text": "on", "fix": ""},
    ]


def test_names_of_the_checks_are_stable() -> None:
    names = [name for probes in doctor.PROBES.values() for name in probes]
    assert names == [
        *("gpu", "driver", "persistence", "clocks", "throttling", "power", "ecc", "mig", "processes", "lock"),
        *("permission", "ncu", "reader", "cupti", "profilers"),
        *("torch", "triton", "nvcc", "compute-sanitizer", "triton-cache", "inductor-cache"),
        *("plugins", "disk", "baselines", "recordings"),
    ]


def test_every_line_is_explained() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "check_a_machine.md").read_text(encoding="utf-8")
    rows = [row.partition(": ")[0] for row in page.splitlines() if row.startswith("- `")]
    explained = [name for row in rows for name in re.findall(r"`([\w-]+)`", row)]
    assert explained == [name for probes in doctor.PROBES.values() for name in probes]


def raises(error: Exception) -> Callable[[Machine], CheckResult]:
    def probe(_: Machine) -> CheckResult:
        raise error

    return probe


@pytest.mark.parametrize(
    ("error", "text", "fix"),
    [
        (KeyError("x"), "this check failed: KeyError: 'x'", ""),
        (
            RuntimeError("no /home/alice/x/lib.so: bad\nmore"),
            "this check failed: RuntimeError: no …/lib.so: bad",
            "",
        ),
        (
            PermissionError(13, "Permission denied", "/home/alice/secret"),
            "this check failed: PermissionError: Permission denied",
            "",
        ),
        (
            GpuperfError("gpuperf_ncu names '/home/alice/ncu'", expected="an ncu", next_step="name it"),
            "gpuperf_ncu names '…/ncu'; expected an ncu",
            "name it",
        ),
    ],
)
def test_check_that_raises_is_a_problem(
    here: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, text: str, fix: str
) -> None:
    probes = {"ncu": raises(error), "ecc": lambda _: check.ok("on")}
    monkeypatch.setattr(doctor, "PROBES", {"theme": probes})
    failed, well = doctor.examine(machine(here))
    assert (failed.state.value, failed.text, failed.fix) == ("problem", text, fix)
    assert well.text == "on"


def test_lines_that_need_a_gpu_are_absent_without_one(here: Path) -> None:
    by_name = {found.name: found for found in doctor.examine(without_gpu(here))}
    for name in ("persistence", "clocks", "throttling", "power", "ecc", "mig", "processes", "lock"):
        assert (by_name[name].state.value, by_name[name].text) == ("absent", "no GPU")
    assert not any(found.state is check.State.PROBLEM for found in by_name.values())


def test_checks_without_nvml_name_the_reason(here: Path) -> None:
    texts = {found.name: found.text for found in doctor.examine(machine(here, state=None))}
    assert texts["ecc"] == "NVML does not say: it does not know this GPU"


def test_good_machine_has_no_problems(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gpuperf.cli.doctor.plugins.entry_points", lambda group: [])
    accept(one_test(), machine(here).project.store, "all", 5.0)
    monkeypatch.setattr(Machine, "version", lambda *_: "1.0")
    system_file(here, "proc/driver/nvidia/params", "RmProfilingAdminOnly: 0\n")
    system_file(here, "usr/local/cuda/lib64/libcupti.so.13")
    found = doctor.examine(machine(here))
    bad = [one for one in found if one.state in (check.State.PROBLEM, check.State.WARNING)]
    assert bad == []


def test_paths_hide_home_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    assert check.shown(Path("/home/alice/bin/ncu")) == "~/bin/ncu"
    assert check.shown(Path("/home/bob/bin/ncu")) == "…/ncu"
    assert check.shown(Path("/scratch/alice/ncu")) == "…/ncu"
    assert check.shown(Path("/usr/local/cuda/bin/ncu")) == "/usr/local/cuda/bin/ncu"
    monkeypatch.setenv("HOME", "/")
    assert check.shown(Path("/usr/bin/ncu")) == "/usr/bin/ncu"


def test_torch_is_described_without_its_import(here: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pytest_gpuperf.cli.project import Project; "
        "from pytest_gpuperf.cli.doctor.machine import Machine; "
        "print(Machine(Project(Path(), Path(), 5.0)).torch.version, 'torch' in sys.modules)"
    )
    import torch

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == f"{torch.__version__} False\n"


def fresh(made: Machine, torch: Torch | None) -> Machine:
    """Return the machine before its GPU is known."""
    for name in ("gpu", "no_gpu"):
        del vars(made)[name]
    vars(made)["torch"] = torch
    return made


def test_reason_for_a_missing_gpu_is_shown(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, cpu = Torch("2", "13.0", here), Torch("2", "", here)
    assert fresh(without_gpu(here), None).no_gpu == "torch is not installed"
    assert fresh(without_gpu(here), cpu).no_gpu == "this torch was built without CUDA"
    assert fresh(without_gpu(here), cuda).no_gpu == "there is no NVIDIA GPU"
    sees_none = fresh(machine(here, driver=DRIVER), cuda)
    monkeypatch.setattr("pytest_gpuperf.session.live.why_not_live", lambda: "torch sees no CUDA GPU")
    assert sees_none.no_gpu == "torch sees no CUDA GPU"
    assert sees_none.gpu is None


def test_broken_torch_is_reported_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise OSError("/home/alice/lib/libcudart.so.13: cannot open shared object file")

    monkeypatch.setattr("pytest_gpuperf.session.live.why_not_live", fail)
    failing = fresh(machine(here), Torch("2", "13.0", here))
    found = [one for one in doctor.examine(failing) if one.state is check.State.PROBLEM]
    assert [(one.name, one.text) for one in found] == [
        (
            "gpu",
            "torch fails: …/libcudart.so.13: cannot open shared object file, but the driver has one GPU: "
            "nothing can be measured",
        )
    ]


def test_silent_tool_is_a_problem(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shadow(here / "bin" / "nvcc", "")
    (here / "bin" / "nvcc").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr("pytest_gpuperf.cli.doctor.machine.TOOL_S", 0.1)
    there = machine(here, environ={"PATH": str(here / "bin")})
    found = {one.name: one for one in doctor.examine(there)}["nvcc"]
    assert found.state.value == "problem"
    assert "TimeoutExpired" in found.text


def test_command_works_without_a_gpu(tmp_path: Path) -> None:
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200", "HOME": str(tmp_path / "alice")}
    command = [sys.executable, "-c", "from pytest_gpuperf.cli import main; main()", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ, check=False)
    assert done.stderr == ""
    assert [line for line in done.stdout.splitlines() if line and not line.startswith(" ")][:-1] == [
        *doctor.PROBES
    ]
    assert "a run replays the newest recording" in done.stdout
    assert "alice" not in done.stdout
    assert str(tmp_path) not in done.stdout
