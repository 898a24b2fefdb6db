"""Old code with a compiled extension: never compared with that of the checkout, built by `gpuperf_build`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from against_project import Project
from present import present
from pytest_gpuperf.against import build
from pytest_gpuperf.against.git import Repository
from pytest_gpuperf.against.interpreter import Installed
from pytest_gpuperf.errors import GpuperfError

pytest.importorskip("setuptools")
if shutil.which("cc") is None:
    pytest.skip("needs a C compiler", allow_module_level=True)

SOURCE = """
#include <Python.h>
static PyObject *kernel(PyObject *self, PyObject *args) {{ return PyFloat_FromDouble({time_us}); }}
static PyMethodDef methods[] = {{{{"kernel", kernel, METH_NOARGS, ""}}, {{0}}}};
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "_fast", "", -1, methods}};
PyMODINIT_FUNC PyInit__fast(void) {{ return PyModule_Create(&module); }}
"""
SETUP = """
from setuptools import Extension, setup
setup(name="fast", version="1", packages=["fast"], ext_modules=[Extension("fast._fast", ["fast/_fast.c"])])
"""
TEST = "from fast import kernel\ndef test_k(gpuperf): gpuperf.time(kernel)\n"
# As `pip install --no-deps --no-build-isolation --target {prefix} .` does; there may be no pip.
INSTALL = f"{sys.executable} setup.py --quiet build --build-lib {{prefix}}"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Create a project of 10 µs with a committed baseline, whose sources of 20 µs are built in place."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Project(tmp_path / "repo")
    made.forks = True
    made.commit(
        {
            "setup.py": SETUP,
            "fast/__init__.py": "from fast._fast import kernel\n",
            "fast/_fast.c": SOURCE.format(time_us=10.0),
            "tests/test_k.py": TEST,
            ".gitignore": "*.so\nbuild\n*.egg-info\n__pycache__\n",
        }
    )
    in_place(made)
    assert made.session("--gpuperf-update=all").returncode == 0
    made.commit({})
    made.write({"fast/_fast.c": SOURCE.format(time_us=20.0)})
    return made


def in_place(project: Project) -> None:
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=project.root, check=True, capture_output=True)


def test_an_extension_built_in_place_is_not_taken_for_old_code(project: Project) -> None:
    in_place(project)
    done = project.session()
    found = project.settlements()["test_k"]
    assert (found.how, found.fresh_us) == ("fresh", (20.0,) * 3), done.stdout
    assert found.reason.startswith(
        f"module fast._fast (fast/_fast{SUFFIX}) is not in git, so old code has none; gpuperf_build = COMMAND"
    )


def test_an_extension_is_built_once_for_a_commit(project: Project) -> None:
    in_place(project)
    arguments = (f"-ogpuperf_build={INSTALL}",)
    done = project.session(*arguments)
    assert done.returncode == 1, done.stdout
    against = present(project.settlements()["test_k"].against)
    assert (against.old_us, against.new_us) == (10.0, 20.0)
    assert "gpuperf: gpuperf_build of " in done.stdout
    (built,) = (one for one in build.builds().iterdir() if one.is_dir())
    assert built.name.startswith(against.commit)
    before = (built / build.DONE).stat().st_mtime_ns
    project.session(*arguments)
    assert project.settlements()["test_k"].how == "in turn"
    assert (built / build.DONE).stat().st_mtime_ns == before


def test_a_build_sees_no_file_that_git_ignores_in_the_checkout(project: Project) -> None:
    """It would take the library of new code for a part of old code, or write into the checkout."""
    in_place(project)
    project.write({"fast/data.so": "new"})
    project.session("-ogpuperf_build=/bin/sh -c 'cp -rL fast {prefix}; echo old > fast/data.so'")
    found = project.settlements()["test_k"]
    assert (found.how, "ModuleNotFoundError" in found.reason) == ("fresh", True), found.reason
    assert (project.root / "fast/data.so").read_text() == "new"


def test_an_installed_copy_is_new_code_next_to_built_old_code(project: Project) -> None:
    site = project.root.parent / "site"
    command = [word.replace("{prefix}", str(site)) for word in INSTALL.split()]
    subprocess.run(command, cwd=project.root, check=True, capture_output=True)
    project.git("clean", "-fdXq")  # the files that the first build has left
    project.path.append(site)
    project.forks = False  # forks run pytest, not a program
    program = project.root.parent / "program.py"
    program.write_text("import pytest\nraise SystemExit(pytest.main())\n")
    for arguments, how in ((), "fresh"), ((f"-ogpuperf_build={INSTALL}",), "in turn"):
        project.session(*arguments, program=(str(program),))
        found = project.settlements()["test_k"]
        assert found.how == how, found
        assert how == "in turn" or "of the installed copy of the project; gpuperf_build = " in found.reason


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (f"{sys.executable} -c 'print(1); raise SystemExit(3)'", "ended with exit status 3 for old code: 1"),
        (f"{sys.executable} setup.py build_ext --inplace", "has put nothing into {prefix}"),
        ("no-such-program {prefix}", "cannot be run: No such file or directory: no-such-program"),
        ("pip install 'x", "cannot be read: No closing quotation"),
    ],
)
def test_a_build_that_fails_has_a_reason(project: Project, command: str, why: str) -> None:
    repository, test = Repository.around(project.root), project.timed("tests/test_k.py::test_k")
    with project.engine(build=command) as engine:
        with pytest.raises(GpuperfError, match=re.escape(f"gpuperf_build {why}")):
            engine.compare(test, repository, repository.commit("HEAD"), lambda _: None)
        assert engine.built_s > 0  # the limit of time for settling leaves these seconds out


def test_a_cache_that_cannot_be_written_has_a_reason(project: Project) -> None:
    in_place(project)
    (project.root.parent / "cache").write_text("")
    project.session(f"-ogpuperf_build={INSTALL}")
    found = project.settlements()["test_k"]
    assert (found.how, found.reason) == ("fresh", "Not a directory")


def test_a_build_that_takes_too_long_is_ended(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "BUILD_S", 0.0)
    with pytest.raises(GpuperfError, match="gpuperf_build has taken more than 0 s for old code"):
        project.compare("tests/test_k.py::test_k", ref="HEAD", build=f"{sys.executable} -c 'input()'")


def test_another_architecture_or_compiler_is_another_build(tmp_path: Path) -> None:
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.touch(mode=0o755)
    with_nvcc = {"CUDA_HOME": str(tmp_path)}
    calls = [("8.0", {}), ("9.0", {}), ("9.0", {"TORCH_CUDA_ARCH_LIST": "8.0"}), ("9.0", with_nvcc)]
    python = Path(sys.executable)
    keys = [build._key(tmp_path, python, "pip", *call) for call in calls]
    os.utime(nvcc, (1, 1))
    keys.append(build._key(tmp_path, python, "pip", *calls[-1]))
    assert len(set(keys)) == 5
    assert build._key(tmp_path, python, "pip", *calls[-1]) == keys[-1]


def test_another_version_of_the_project_is_no_other_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some tools take the version from the commit that is checked out: that of new code."""
    (tmp_path / "setup.py").write_text(SETUP)
    keys = []
    for fast, torch in ("1.dev1", "2.11"), ("1.dev2", "2.11"), ("1.dev2", "2.12"):
        found = Installed("", {"fast": fast, "torch": torch})
        monkeypatch.setattr(build, "installed", lambda _, found=found: found)
        keys.append(build._key(tmp_path, Path(sys.executable), "pip", "9.0", {}))
    assert keys[0] == keys[1] != keys[2]


def test_builds_that_were_not_used_for_longest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "BUILDS_KEPT", 2)
    for at, name in enumerate("abc"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (at, at))
    build._prune(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c"]
