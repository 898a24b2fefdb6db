"""`gpuperf doctor`: its checks, the page, JSON and exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.cli import main
from pytest_gpuperf.cli.project import Project
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.doctor import command as doctor
from pytest_gpuperf.features.doctor import counter_access
from pytest_gpuperf.features.doctor.command import Machine
from pytest_gpuperf.measure.cupti.libcupti import CuptiError, refusal
from pytest_gpuperf.measure.device.driver import CUDA_ERROR_NO_DEVICE, CUDA_ERROR_STUB_LIBRARY, DriverError
from pytest_gpuperf.measure.device.gpu_lock import GpuLock
from pytest_gpuperf.measure.ncu.tool import Ncu
from pytest_gpuperf.records import Conditions, GpuInfo
from run_builders import one_test

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

UUID = "GPU-c4101d6e-0f0c-4b6e-9c3e-000000000001"
H200 = GpuInfo(name="NVIDIA H200", slug="nvidia-h200", uuid=UUID)
IDLE = Conditions(sm_clock_mhz=345, max_sm_clock_mhz=1980)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine with an idle H200 and an empty project."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(doctor, "GpuLock", lambda uuid: GpuLock(uuid, [tmp_path]))
    nvml(monkeypatch, IDLE)
    project = Project(tmp_path, tmp_path / "baselines", 5.0)
    return Machine(project, H200, driver="580.159.04")


def nvml(patch: pytest.MonkeyPatch, now: Conditions | None, *, clocks_are_set: bool = False) -> None:
    fake = SimpleNamespace(conditions=lambda: now, clocks_are_set=clocks_are_set)
    patch.setattr(doctor, "Nvml", lambda uuid: fake)


def only(patch: pytest.MonkeyPatch, **results: doctor.Result | Exception) -> None:
    """Replace all checks."""

    def check(name: str, result: doctor.Result | Exception) -> Callable[[Machine], doctor.Result]:
        def checked(_: Machine) -> doctor.Result:
            if isinstance(result, Exception):
                raise result
            return result

        checked.__name__ = name
        return checked

    patch.setattr(doctor, "CHECKS", [check(*pair) for pair in results.items()])


def run_doctor(*args: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *args], env={"COLUMNS": "60"})


def test_page_and_json_have_each_check(monkeypatch: pytest.MonkeyPatch) -> None:
    only(
        monkeypatch,
        clocks=doctor.Result("warning", "held", "sudo nvidia-smi"),
        ncu=doctor.Result("absent", "not found"),
    )
    page = run_doctor()
    assert page.output.splitlines() == [
        "clocks  warning  held",
        "                 -> sudo nvidia-smi",
        "ncu     absent   not found",
        "",
        "1 warning, 1 absent",
    ]
    assert page.exit_code == 0
    assert json.loads(run_doctor("--json").output) == [
        {"name": "clocks", "state": "warning", "text": "held", "fix": "sudo nvidia-smi"},
        {"name": "ncu", "state": "absent", "text": "not found", "fix": ""},
    ]


def test_problem_is_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, ncu=doctor.Result("problem", "bad"), torch=doctor.Result("ok", "2"))
    assert run_doctor().exit_code == 1
    assert run_doctor("--json").exit_code == 1


def test_check_that_raises_is_a_problem_with_no_path(there: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    only(
        monkeypatch,
        ncu=GpuperfError("'/home/alice/ncu' is none", next_step="name it"),
        cupti=RuntimeError("no /home/alice/x/lib.so: bad\nmore"),
        torch=doctor.Result("ok", "2"),
    )
    assert doctor.examine(there) == {
        "ncu": ("problem", "'…/ncu' is none", "name it"),
        "cupti": ("problem", "this check failed: RuntimeError: no …/lib.so: bad", ""),
        "torch": ("ok", "2", ""),
    }


def test_every_check_is_explained() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "doctor.md").read_text(encoding="utf-8")
    explained = re.findall(r"^- `(\w+)`:", page, re.MULTILINE)
    assert explained == [check.__name__ for check in doctor.CHECKS]


def test_good_machine_has_no_problems(there: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    accept(one_test(), there.project.store, "all", 5.0)
    monkeypatch.setattr(counter_access, "read_one", lambda: None)
    monkeypatch.setattr(doctor, "find_ncu", lambda path: Ncu(Path("ncu"), "2025.3.1.0"))
    monkeypatch.setattr(doctor, "copies", lambda: [("the CUDA toolkit", Path("libcupti.so.13"))])
    monkeypatch.setattr(doctor, "_installed", lambda *_: "2.11.0")
    found = doctor.examine(there)
    assert {result.state for result in found.values()} == {"ok"}
    assert found["gpu"].text == "NVIDIA H200, driver 580.159.04"
    assert found["clocks"].text.startswith("SM 345 of 1980 MHz; no setting")
    assert found["baselines"].text == "nvidia-h200: 1 suite, 1 test"


@pytest.mark.parametrize(
    ("driver", "environ", "state", "fix"),
    [
        ("", {}, "warning", "replay"),
        ("580.1", {}, "problem", "torch.cuda.init"),
        ("580.1", {"CUDA_VISIBLE_DEVICES": ""}, "warning", "unset CUDA_VISIBLE_DEVICES"),
    ],
)
def test_missing_gpu_is_a_problem_if_there_is_a_driver(
    there: Machine,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    environ: Mapping[str, str],
    state: str,
    fix: str,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    found = doctor.examine(replace(there, gpu=None, why="torch sees no CUDA GPU", driver=driver))
    assert found["gpu"].state == state
    assert "torch sees no CUDA GPU" in found["gpu"].text
    assert fix in found["gpu"].fix
    for name in ("clocks", "processes", "lock", "counters"):
        assert found[name] == ("absent", "no GPU", "")


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (0, "problem"),
        (CUDA_ERROR_NO_DEVICE, "warning"),
        (CUDA_ERROR_STUB_LIBRARY, "warning"),
        (803, "problem"),  # CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        (DriverError("no libcuda"), "warning"),
    ],
)
def test_driver_without_nvml_is_asked_for_a_device(
    there: Machine, monkeypatch: pytest.MonkeyPatch, answer: int | DriverError, state: str
) -> None:
    """As on WSL2 and Jetson, where not every part of NVML exists."""

    def library() -> SimpleNamespace:
        if isinstance(answer, DriverError):
            raise answer
        return SimpleNamespace(cuInit=lambda _: answer)

    monkeypatch.setattr(doctor, "library", library)
    assert doctor.gpu(replace(there, gpu=None, why="torch sees no CUDA GPU", driver="")).state == state


def test_broken_torch_is_the_reason(there: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise OSError("libcudart.so.13: cannot open shared object file")

    monkeypatch.setattr("pytest_gpuperf.session.live_runner.why_not_live", fail)
    assert doctor.look(there.project).why == "torch fails: libcudart.so.13: cannot open shared object file"


@pytest.mark.parametrize(
    ("now", "set_", "state", "text"),
    [
        ({"throttle_reasons": ("sw_power_cap",)}, False, "warning", "sw_power_cap"),
        ({}, True, "warning", "locked clocks"),
        (None, False, "absent", "NVML does not say"),
    ],
)
def test_clocks_that_are_held_spoil_times(
    there: Machine,
    monkeypatch: pytest.MonkeyPatch,
    now: dict[str, Any] | None,
    set_: bool,
    state: str,
    text: str,
) -> None:
    conditions = None if now is None else Conditions(sm_clock_mhz=900, max_sm_clock_mhz=1980, **now)
    nvml(monkeypatch, conditions, clocks_are_set=set_)
    found = doctor.clocks(there)
    assert (found.state, text in found.text) == (state, True)


@pytest.mark.parametrize(
    ("now", "state"), [(None, "absent"), (IDLE, "ok"), (Conditions(other_processes=2), "warning")]
)
def test_other_processes_are_counted(
    there: Machine, monkeypatch: pytest.MonkeyPatch, now: Conditions | None, state: str
) -> None:
    nvml(monkeypatch, now)
    found = doctor.processes(there)
    assert found.state == state
    assert found.text.endswith("compute on it: 2") == (state == "warning")


def test_run_that_measures_is_named_and_left_alone(there: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_access, "read_one", lambda: pytest.fail("tried"))
    assert doctor.lock(there) == ("ok", "free", "")
    held = GpuLock(UUID, [there.project.root])
    held.acquire()
    found = doctor.lock(there)
    assert (found.state, found.fix) == ("warning", f"kill {os.getpid()}")
    assert doctor.counters(there).state == "absent"
    held.release()


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (None, ("ok", "CUPTI reads them", "")),
        (
            refusal("cuptiRangeProfilerStart", 43),
            ("problem", "CUPTI does not profile this slice", "a later driver"),
        ),
        (refusal("cuptiRangeProfilerEnable", 35), ("problem", "the driver denies", "load the driver with")),
        (CuptiError("libcupti was not found", next_step="pip"), ("warning", "libcupti was not found", "pip")),
    ],
)
def test_counters_are_tried(
    there: Machine, monkeypatch: pytest.MonkeyPatch, answer: CuptiError | None, result: tuple[str, str, str]
) -> None:
    def read() -> None:
        if answer is not None:
            raise answer

    monkeypatch.setattr(counter_access, "read_one", read)
    found = doctor.counters(there)
    assert [shown.startswith(part) for shown, part in zip(found, result, strict=True)] == [True] * 3


def test_missing_tools_are_warnings_only_with_a_gpu(there: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_ncu", lambda path: None)
    monkeypatch.setattr(doctor, "copies", list)
    monkeypatch.setattr(doctor, "_installed", lambda *_: "")
    states = {name: result.state for name, result in doctor.examine(there).items()}
    without = doctor.examine(replace(there, gpu=None, driver=""))
    assert [(states[name], without[name].state) for name in ("ncu", "cupti", "torch", "triton")] == [
        ("warning", "absent"),
        ("warning", "absent"),
        ("problem", "warning"),
        ("absent", "absent"),
    ]


def test_without_baselines_the_command_for_them_is_shown(there: Machine) -> None:
    assert doctor.baselines(replace(there, gpu=None)).fix == "pytest --gpuperf --gpuperf-update=new"


def test_baselines_of_other_gpus_are_named(there: Machine) -> None:
    assert doctor.baselines(there)[:2] == ("warning", "none for nvidia-h200")
    accept(one_test(), there.project.store, "all", 5.0)
    other = replace(there, gpu=GpuInfo(name="NVIDIA A100", slug="nvidia-a100", uuid=UUID))
    assert doctor.baselines(other).text == "none for nvidia-a100 (there are some for nvidia-h200)"


def test_command_works_without_a_gpu(tmp_path: Path) -> None:
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200", "HOME": str(tmp_path / "alice")}
    command = [sys.executable, "-c", "from pytest_gpuperf.cli import main; main()", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ, check=False)
    assert done.stderr == ""
    assert "a run can only replay recordings" in done.stdout
    assert "alice" not in done.stdout
    assert str(tmp_path) not in done.stdout
