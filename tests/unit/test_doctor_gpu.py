"""`gpuperf doctor`: checks of the GPU, its driver and their state."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from doctor_builders import STATE, UUID, machine, said, system_file, without_gpu
from pytest_gpuperf.cli.doctor import gpu
from pytest_gpuperf.cli.doctor.machine import Torch
from pytest_gpuperf.cli.doctor.nvml import Driver, GpuState
from pytest_gpuperf.measure.device.lock import GpuLock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gpuperf.cli.doctor.check import CheckResult

SLICE = replace(STATE, uuid="MIG-c4101d6e", mig=True, slices=(2, 2))
NOTHING = GpuState(uuid=UUID)
CHECKS = (gpu.persistence, gpu.clocks, gpu.throttling, gpu.power, gpu.ecc, gpu.mig, gpu.processes)
NEEDS_NONE = "a run replays the newest recording; static checks, reports and baselines need none"


def test_gpu_is_described(tmp_path: Path) -> None:
    text = "NVIDIA H200, compute capability 9.0, 132 SMs, 140 GiB, GPU-c410…"
    assert said(gpu.gpu(machine(tmp_path))) == ("ok", text, "")


def test_one_of_several_gpus_is_counted(tmp_path: Path) -> None:
    found = gpu.gpu(machine(tmp_path, driver=Driver("580.159.04", (13, 0), 4)))
    assert found.text.endswith("GPU-c410…, one of 4")


def test_machine_without_a_gpu_gets_the_working_commands(tmp_path: Path) -> None:
    assert said(gpu.gpu(without_gpu(tmp_path))) == (
        "warning",
        f"none (there is no NVIDIA GPU): {NEEDS_NONE}",
        "use a machine with one, or replay: pytest --gpuperf",
    )


def test_gpu_that_torch_cannot_use_is_a_problem(tmp_path: Path) -> None:
    reason = "this torch was built without CUDA"
    torch = Torch("2.13.0+cpu", "", tmp_path)
    assert said(gpu.gpu(machine(tmp_path, gpu=None, no_gpu=reason, torch=torch))) == (
        "problem",
        "this torch was built without CUDA, but the driver has one GPU: nothing can be measured",
        "install a torch with CUDA: https://pytorch.org/get-started/locally",
    )


def test_gpu_that_torch_does_not_see_is_a_problem(tmp_path: Path) -> None:
    two = Driver("580.159.04", (13, 0), 2)
    assert said(gpu.gpu(machine(tmp_path, gpu=None, no_gpu="torch sees no CUDA GPU", driver=two))) == (
        "problem",
        "torch sees no CUDA GPU, but the driver has 2 GPUs: nothing can be measured",
        "python -c 'import torch; torch.cuda.init()' says why",
    )


def test_hidden_gpu_is_a_warning(tmp_path: Path) -> None:
    hidden = machine(tmp_path, gpu=None, environ={"CUDA_VISIBLE_DEVICES": ""})
    assert said(gpu.gpu(hidden)) == (
        "warning",
        f"CUDA_VISIBLE_DEVICES= hides every GPU: {NEEDS_NONE}",
        "unset CUDA_VISIBLE_DEVICES",
    )


@pytest.mark.parametrize(
    ("driver", "torch", "expected"),
    [
        (
            Driver("580.159.04", (13, 0), 1),
            Torch("2.11.0+cu130", "13.0", None),  # type: ignore[arg-type]
            ("ok", "580.159.04, runs CUDA 13.0; torch is built for 13.0", ""),
        ),
        (
            Driver("580.159.04", (13, 0), 1),
            Torch("2.6.0+cu124", "12.4", None),  # type: ignore[arg-type]
            ("ok", "580.159.04, runs CUDA 13.0; torch is built for 12.4", ""),
        ),
        (
            Driver("550.54.15", (12, 4), 1),
            Torch("2.11.0+cu130", "13.0", None),  # type: ignore[arg-type]
            (
                "problem",
                "550.54.15, runs CUDA 12.4; torch is built for 13.0",
                "update the driver, or install a torch for CUDA 12: https://pytorch.org/get-started/locally",
            ),
        ),
        (Driver("580.159.04", (13, 0), 1), None, ("ok", "580.159.04, runs CUDA 13.0", "")),
        (Driver("580.159.04", None, 1), None, ("ok", "580.159.04", "")),
    ],
)
def test_driver_must_fit_torch(
    tmp_path: Path, driver: Driver, torch: Torch | None, expected: tuple[str, str, str]
) -> None:
    assert said(gpu.driver(machine(tmp_path, gpu=None, driver=driver, torch=torch))) == expected


def test_old_driver_that_runs_torch_is_ok(tmp_path: Path) -> None:
    found = gpu.driver(machine(tmp_path, driver=Driver("550.54.15", (12, 4), 1)))
    assert found.state.value == "ok"


def test_missing_driver_is_absent(tmp_path: Path) -> None:
    expected = ("absent", "none (NVML Shared Library Not Found)", "")
    assert said(gpu.driver(without_gpu(tmp_path))) == expected


def test_driver_that_does_not_answer_is_a_problem(tmp_path: Path) -> None:
    system_file(tmp_path, "dev/nvidiactl")
    silent = without_gpu(tmp_path, driver=Driver(error="Driver/library version mismatch"))
    assert said(gpu.driver(silent)) == (
        "problem",
        "it does not answer (Driver/library version mismatch)",
        "nvidia-smi; after an update of the driver, reboot",
    )


RESET = "sudo nvidia-smi --reset-gpu-clocks; sudo nvidia-smi --reset-applications-clocks"


@pytest.mark.parametrize(
    ("check", "changed", "expected"),
    [
        (gpu.persistence, {}, ("ok", "on", "")),
        (
            gpu.persistence,
            {"persistence": False},
            (
                "warning",
                "off: the driver unloads between runs, so each starts slowly and clock settings are lost",
                "sudo nvidia-smi -pm 1",
            ),
        ),
        (
            gpu.clocks,
            {},
            (
                "ok",
                "SM 345 of 1980 MHz, memory 3201 MHz; no setting holds them now (one may show only under "
                "load)",
                "",
            ),
        ),
        (
            gpu.clocks,
            {"sm_mhz": 1500, "event_bits": 0x2},
            (
                "warning",
                "SM 1500 of 1980 MHz, memory 3201 MHz; held there by application or locked clocks: compare "
                "only with baselines taken so",
                RESET,
            ),
        ),
        (
            gpu.clocks,
            {"application_mhz": 1095, "default_application_mhz": 1410},
            (
                "warning",
                "SM 345 of 1980 MHz, memory 3201 MHz; application clocks set to 1095 MHz: compare only with "
                "baselines taken so",
                RESET,
            ),
        ),
        (
            gpu.clocks,
            {
                "application_mhz": 1095,
                "default_application_mhz": 1095,
                "memory_mhz": None,
                "most_sm_mhz": None,
            },
            ("ok", "SM 345 MHz; no setting holds them now (one may show only under load)", ""),
        ),
        (gpu.throttling, {}, ("ok", "nothing holds the clocks back now", "")),
        (
            gpu.throttling,
            {"event_bits": 0x4 | 0x40},
            (
                "warning",
                "the clocks are held back now: sw_power_cap, hw_thermal_slowdown",
                "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; measure while the GPU is idle and cool",
            ),
        ),
        (gpu.power, {}, ("ok", "31 °C, 77 of 700 W", "")),
        (gpu.power, {"limit_mw": None, "temperature_c": None}, ("ok", "77 W", "")),
        (
            gpu.power,
            {"limit_mw": 400_000},
            (
                "warning",
                "31 °C, 77 of 400 W; the limit is below its default of 700 W: heavy kernels run at lower "
                "clocks",
                "sudo nvidia-smi --power-limit=700",
            ),
        ),
        (
            gpu.power,
            {"temperature_c": 84},
            (
                "warning",
                "84 °C, 77 of 700 W; clocks go down at 87 °C",
                "let it cool, look at its fans",
            ),
        ),
        (gpu.ecc, {}, ("ok", "on; compare only with baselines taken so", "")),
        (gpu.ecc, {"ecc": (False, False)}, ("ok", "off; compare only with baselines taken so", "")),
        (
            gpu.ecc,
            {"ecc": (True, False)},
            ("warning", "on, off after the next reset", "sudo nvidia-smi --gpu-reset"),
        ),
        (gpu.mig, {}, ("ok", "off", "")),
        (
            gpu.mig,
            {"mig": True},
            (
                "problem",
                "on, but no slice of the GPU is in use: CUDA sees only slices",
                "sudo nvidia-smi mig -cgi 0 -C; or without MIG: sudo nvidia-smi -mig 0",
            ),
        ),
        (gpu.processes, {}, ("ok", "nobody else computes on it (other containers may be hidden)", "")),
        (
            gpu.processes,
            {"pids": (os.getpid(), 7)},
            (
                "warning",
                "another process computes on it: 7 (in a container, as the host counts)",
                "nvidia-smi; end them",
            ),
        ),
        (
            gpu.processes,
            {"pids": (7, 8)},
            (
                "warning",
                "2 other processes compute on it: 7, 8 (in a container, as the host counts)",
                "nvidia-smi; end them",
            ),
        ),
    ],
)
def test_state_of_the_gpu_is_judged(
    check: Callable[[GpuState], CheckResult], changed: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    assert said(check(replace(STATE, **changed))) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {},
            (
                "ok",
                "on, MIG-c410… is a compute instance of 2 of the 2 slices of its GPU instance: ncu reads all "
                "of its counters",
                "",
            ),
        ),
        (
            {"slices": (4, 1)},
            (
                "warning",
                "on, MIG-c410… is a compute instance of 1 of the 4 slices of its GPU instance: ncu reads "
                "those of its own SMs, not those of the shared L2 and memory",
                "sudo nvidia-smi mig -dci; sudo nvidia-smi mig -cci (one as large as its GPU instance)",
            ),
        ),
        ({"slices": None}, ("ok", "on, MIG-c410…", "")),
    ],
)
def test_counters_of_a_slice_depend_on_its_size(
    changed: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    assert said(gpu.mig(replace(SLICE, **changed))) == expected


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_unknown_state_is_absent(check: Callable[[GpuState], CheckResult]) -> None:
    found = check(NOTHING)
    assert found.state.value == "absent"
    assert found.text in ("the driver does not say", "this GPU has none")


def test_free_gpu_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gpuperf.cli.doctor.gpu.GpuLock", lambda uuid: GpuLock(uuid, [tmp_path]))
    assert said(gpu.lock(machine(tmp_path))) == ("ok", "free", "")


def test_holder_of_the_lock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gpuperf.cli.doctor.gpu.GpuLock", lambda uuid: GpuLock(uuid, [tmp_path]))
    held = GpuLock(UUID, [tmp_path])
    held.acquire()
    pid = os.getpid()
    text = f"pid {pid} (pytest) has been measuring for 0 s: the next run waits for it"
    assert said(gpu.lock(machine(tmp_path))) == ("warning", text, f"kill {pid}")
    held.release()


def test_unusable_lock_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = tmp_path / "nowhere"
    monkeypatch.setattr(
        "pytest_gpuperf.cli.doctor.gpu.GpuLock", lambda uuid: GpuLock(uuid, [nowhere, nowhere])
    )
    text = f"neither {nowhere} nor {nowhere} is writable: runs do not wait for each other"
    assert said(gpu.lock(machine(tmp_path))) == ("warning", text, "")
