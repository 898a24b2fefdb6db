"""This machine, its software and one project, as the checks read them: each fact when first needed."""

from __future__ import annotations

import importlib.util
import os
import runpy
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.cli.doctor.check import without_paths
from pytest_gpuperf.cli.doctor.nvml import Driver, GpuState, first_uuid, read_driver, read_gpu
from pytest_gpuperf.measure.ncu.tool import Ncu, find_ncu
from pytest_gpuperf.settings.pytest_config import find_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.cli.project import Project
    from pytest_gpuperf.records import GpuInfo

DEVICES = ("nvidiactl", "dxg", "nvgpu", "nvhost-gpu")
"""Devices below `/dev`: of the driver, of WSL, and of boards with CPU and GPU in one."""
TOOL_S = 20.0
"""Time in which a tool has to print its version, in seconds."""


@dataclass(frozen=True)
class Torch:
    """The torch that is installed."""

    version: str
    cuda: str
    """The CUDA version that it was built for, such as `13.0`; empty for none."""
    folder: Path


class Machine:
    """This machine as the checks see it.

    Args:
        project: The project with the baselines, state folder and pytest configuration.
        system: Folder of `/proc`, `/dev` and the CUDA toolkit.
        environ: The environment variables.
    """

    def __init__(
        self, project: Project, *, system: Path = Path("/"), environ: Mapping[str, str] | None = None
    ) -> None:
        self.project = project
        self.system = system
        self.environ = os.environ if environ is None else environ

    @cached_property
    def ini(self) -> Mapping[str, str]:
        """The keys of pytest's configuration."""
        config = find_config(self.project.root)
        return config.values if config else {}

    @cached_property
    def driver(self) -> Driver:
        """Facts about the driver, from NVML."""
        return read_driver()

    @cached_property
    def has_device(self) -> bool:
        """True if there may be a GPU: NVML has one, or the device of a driver exists."""
        return self.driver.gpus > 0 or any((self.system / "dev" / name).exists() for name in DEVICES)

    @cached_property
    def torch(self) -> Torch | None:
        """The installed torch, read without importing it, which takes a second or more."""
        found = importlib.util.find_spec("torch")
        if found is None or found.origin is None:
            return None
        folder = Path(found.origin).parent
        names = runpy.run_path(str(folder / "version.py"))
        return Torch(str(names["__version__"]), str(names.get("cuda") or ""), folder)

    @cached_property
    def gpu(self) -> GpuInfo | None:
        """The GPU of a run."""
        return self._looked_for[0]

    @cached_property
    def no_gpu(self) -> str:
        """The reason why a run has no GPU; empty if it has one."""
        return self._looked_for[1]

    @cached_property
    def _looked_for(self) -> tuple[GpuInfo | None, str]:
        if self.torch is None:
            return None, "torch is not installed"
        if not self.torch.cuda:
            return None, "this torch was built without CUDA"
        if not self.has_device:
            return None, "there is no NVIDIA GPU"
        try:
            from pytest_gpuperf.session.live import why_not_live

            if reason := why_not_live():
                return None, reason
            from pytest_gpuperf.measure.device.gpu import gpu_info

            return gpu_info(), ""
        except Exception as error:  # whatever a broken installation, or a GPU that is in use, raises
            return None, f"torch fails: {without_paths(str(error))}"

    @cached_property
    def state(self) -> GpuState | None:
        """Facts about that GPU, from NVML; about the first GPU if torch sees none."""
        if self.driver.error:
            return None
        uuid = self.gpu.uuid if self.gpu else first_uuid()
        return read_gpu(uuid) if uuid else None

    @cached_property
    def ncu(self) -> Ncu | None:
        """The ncu of a run."""
        return find_ncu(self.ini.get("gpuperf_ncu", ""))

    @property
    def toolkits(self) -> list[Path]:
        """Folders of CUDA toolkits, the likeliest first."""
        named = [self.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
        folders = [*(Path(name) for name in named if name), self.system / "usr" / "local" / "cuda"]
        return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]

    def tool(self, name: str) -> Path | None:
        """Find a program on PATH or in a CUDA toolkit."""
        found = shutil.which(name, path=self.environ.get("PATH", ""))
        if found is None:
            hits = (shutil.which(name, path=str(folder / "bin")) for folder in self.toolkits)
            found = next((hit for hit in hits if hit), None)
        return Path(found) if found else None

    def ask(self, *command: str | Path) -> str:
        """Run a tool and return its output.

        Raises:
            OSError: It cannot be run.
            subprocess.TimeoutExpired: It does not answer.
        """
        arguments = [str(part) for part in command]
        return subprocess.run(  # noqa: S603
            arguments, capture_output=True, text=True, check=False, timeout=TOOL_S
        ).stdout

    def version(self, *distributions: str) -> str:
        """Return the version of the first installed distribution; empty if none is installed."""
        for name in distributions:
            with suppress(PackageNotFoundError):
                return version(name)
        return ""
