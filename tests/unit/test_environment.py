"""Toolchain and commit of a run."""

from __future__ import annotations

import subprocess
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.measure.device import environment
from pytest_gpuperf.measure.device import launching_packages as packages
from pytest_gpuperf.measure.device.environment import git_state

if TYPE_CHECKING:
    from pathlib import Path


def test_packages_that_launch_kernels_have_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(name: str, *uses: str, place: str = "/venv/lib/site-packages") -> ModuleType:
        module = ModuleType(name)
        vars(module).update(dict.fromkeys(uses), __file__=f"{place}/{name.replace('.', '/')}.py")
        return module

    def distributions(name: str) -> list[SimpleNamespace]:
        origin = {"mine": '{"url": "file:///repo"}', "liger-kernel": '{"url": "https://x/y.whl"}'}.get(name)
        is_one = name in ("mine", "liger-kernel", "cupy-cuda13x", "tk")
        return [SimpleNamespace(name=name, version="1.2", read_text=lambda _: origin)] * 2 * is_one

    names = {"liger": "liger-kernel", "cupy": "cupy-cuda13x"}
    monkeypatch.setattr(packages, "distributions", distributions)
    monkeypatch.setattr(packages, "_packages", lambda: {name: [one] for name, one in names.items()})
    modules = {
        "liger.ops": loaded("liger.ops", "triton", place="/usr/lib/python3/dist-packages"),
        "cupy": loaded("cupy", "cupy"),
        "yaml": loaded("yaml"),
        "mine": loaded("mine", "torch"),  # installed from a folder: each commit has another version
        "loose": loaded("loose", "torch"),  # copied there
        "tk": loaded("tk", "torch"),  # without a `top_level.txt`
        "kernels": loaded("kernels", "torch", place="/repo"),
        "torch.nn": type("Unread", (), {"__dict__": property(lambda _: pytest.fail("was read"))})(),
    }
    assert packages.launching_packages(modules) == {"cupy-cuda13x": "1.2", "liger-kernel": "1.2", "tk": "1.2"}


def test_allocator_settings_are_a_part_of_the_toolchain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in environment._ALLOCATOR:
        monkeypatch.delenv(name, raising=False)
    assert environment.installed_toolchain().allocator == "native"
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    assert environment.installed_toolchain().allocator == "PYTORCH_ALLOC_CONF=expandable_segments:True"


@pytest.mark.parametrize(("ignored", "dirty"), [("", True), ("new.py\n", False)])
def test_files_that_git_does_not_know_count(tmp_path: Path, ignored: str, dirty: bool) -> None:
    def git(*arguments: str) -> None:
        command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", *arguments]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / ".gitignore").write_text(ignored)
    git("add", "--all")
    git("commit", "--message", "x")
    (tmp_path / "new.py").touch()
    assert (git_state(tmp_path)[1], git_state(tmp_path, untracked=True)[1]) == (False, dirty)
