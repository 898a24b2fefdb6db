"""Imports of the two sides of `--gpuperf-against`: each side uses its own tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from against_project import PLUGIN, Project

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records import Settlement

TEST = "from pkg import kernel\ndef test_k(gpuperf): gpuperf.time(kernel)\n"


def kernel(time_us: float) -> str:
    return f"def kernel(): return {time_us}\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return of_one_restart(tmp_path / "repo")


def of_one_restart(root: Path) -> Project:
    """Make a project whose code runs once on each side, which is enough to see the code."""
    made = Project(root)
    made.restarts = "1"
    made.forks = True
    return made


@pytest.fixture
def site(project: Project) -> Path:
    """Create a folder whose .pth files Python reads at the start of runs and their side processes."""
    site = project.root.parent / "site"
    site.mkdir()
    custom = project.root.parent / "custom"
    custom.mkdir()
    (custom / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({str(site)!r})\n")
    project.path.append(custom)
    return site


def two_versions(project: Project, package: str, files: Mapping[str, str] | None = None) -> None:
    """Commit a kernel of 10 µs, and write one of 8 µs to the checkout."""
    project.commit({f"{package}/__init__.py": kernel(10.0), "tests/test_k.py": TEST, **(files or {})})
    project.write({f"{package}/__init__.py": kernel(8.0)})


def compared(
    project: Project, *arguments: str, cwd: Path | None = None, program: tuple[str, ...] = ("-m", "pytest")
) -> Settlement:
    done = project.session("--gpuperf-against=HEAD", *arguments, cwd=cwd, program=program)
    found = project.settlements()["test_k"]
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    return found


def times(found: Settlement) -> tuple[float, float]:
    assert found.against is not None
    assert found.reason == ""
    assert found.how == "in turn"
    return found.against.old_us, found.against.new_us


CONFTEST = "import pathlib, sys\nsys.path.insert(0, str(pathlib.Path(__file__).parent / 'src'))\n"


@pytest.mark.parametrize(
    ("package", "files", "path"),
    [
        ("src/pkg", {}, ["src"]),
        ("pkg", {}, []),
        ("src/pkg", {"pytest.ini": "[pytest]\npythonpath = src\n"}, []),
        ("src/pkg", {"conftest.py": CONFTEST}, []),
    ],
    ids=["PYTHONPATH", "working-directory", "ini-file", "conftest"],
)
def test_each_side_imports_its_own_package(
    project: Project, package: str, files: Mapping[str, str], path: list[str]
) -> None:
    two_versions(project, package, files)
    project.path += [project.root / folder for folder in path]
    assert times(compared(project)) == (10.0, 8.0)


def test_editable_install_with_a_path_file(project: Project, site: Path) -> None:
    project.forks = False
    two_versions(project, "src/pkg")
    (site / "pkg.pth").write_text(f"{project.root}/src\n")
    assert times(compared(project)) == (10.0, 8.0)


@pytest.mark.parametrize("layout", ["pkg", "lib/python/pkg"])
def test_editable_install_with_a_finder(project: Project, site: Path, layout: str) -> None:
    pytest.importorskip("setuptools")
    project.forks = False
    pyproject = f"""
        build-system = {{ requires = ["setuptools"], build-backend = "setuptools.build_meta" }}
        project = {{ name = "pkg", version = "1" }}
        tool.setuptools = {{ package-dir = {{ pkg = "{layout}" }}, packages = ["pkg"] }}
    """
    two_versions(project, layout, {"pyproject.toml": pyproject, ".gitignore": "*.egg-info\nbuild\n"})
    install_editable(project, site)
    # `python -m pytest` would add the working directory to the path.
    program = project.root.parent / "program.py"
    program.write_text("import pytest\nraise SystemExit(pytest.main())\n")
    assert times(compared(project, program=(str(program),))) == (10.0, 8.0)


def install_editable(project: Project, site: Path) -> None:
    """Imitate `pip install --editable .` with setuptools, without an index."""
    build = f"from setuptools import build_meta; print(build_meta.build_editable({str(site)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=project.root, check=True, capture_output=True, text=True
    )
    shutil.unpack_archive(site / done.stdout.splitlines()[-1], site, "zip")
    assert list(site.glob("__editable___pkg_1_finder.py"))


def test_run_started_in_a_folder_of_the_repository(project: Project) -> None:
    two_versions(project, "src/pkg", {"tests/pytest.ini": "[pytest]\npythonpath = ../src\n"})
    assert times(compared(project, "test_k.py", cwd=project.root / "tests")) == (10.0, 8.0)


def test_linked_repository_with_a_space_in_its_name(tmp_path: Path) -> None:
    project = of_one_restart(tmp_path / "my kernels")
    two_versions(project, "src/pkg")
    link = tmp_path / "link"
    link.symlink_to(project.root)
    project.path.append(link / "src")
    assert times(compared(project, cwd=link)) == (10.0, 8.0)


def test_what_git_ignores_is_shared(project: Project, site: Path, tmp_path: Path) -> None:
    """Share a virtual environment, a generated module, and data of tools and of outside."""
    packages = project.root / ".venv" / "lib" / "site-packages"
    data = (tmp_path / "data", project.root / ".cache" / "data")
    for path in (packages / "installed.py", *data):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    reads = "".join(f"open({str(path)!r}).read()\n" for path in data)
    test = f"import installed\nfrom pkg._version import version\n{reads}{TEST}"
    ignored = ".cache\n.venv\n_version.py\ntmp\n"
    two_versions(project, "src/pkg", {"tests/test_k.py": test, ".gitignore": ignored})
    project.write({"src/pkg/_version.py": "version = 1\n"})
    (site / "venv.pth").write_text(f"{packages}\n{project.root}/src\n")
    project.temporary = project.root / "tmp"
    project.temporary.mkdir()
    assert times(compared(project)) == (10.0, 8.0)


BUILDS = "; gpuperf_build = COMMAND builds it for old code too, such as"


def test_compiled_extension_of_the_checkout_is_refused(project: Project) -> None:
    extension = Path(msgspec._core.__file__)
    name = f"_core{extension.suffix}"
    two_versions(project, "src/pkg", {f"src/pkg/{name}": "", ".gitignore": "*.so\n"})
    project.commit({"src/pkg/__init__.py": "import pkg._core\n" + kernel(10.0)})
    project.write({"src/pkg/__init__.py": "import pkg._core\n" + kernel(8.0)})
    shutil.copy(extension, project.root / "src" / "pkg" / name)
    project.path.append(project.root / "src")
    found = compared(project)
    assert found.how == "impossible"
    assert found.reason.startswith(
        f"module pkg._core (src/pkg/{name}) is not in git, so old code has none{BUILDS}"
    )


READS = {
    "open": "open(root + '/data').read()",
    "mmap": "mmap.mmap(os.open(root + '/data', os.O_RDWR), 0)",
    "native": "ctypes.CDLL(None).open(root.encode() + b'/data', 0)",
    "library": "ctypes.CDLL(root + '/.build/kernels.so')",
}


def test_files_of_the_checkout_are_refused(project: Project) -> None:
    library = project.root / ".build" / "kernels.so"
    library.parent.mkdir()
    shutil.copy(Path(msgspec._core.__file__), library)
    head = f"import ctypes, mmap, os\nroot = {str(project.root)!r}\n"
    tests = {
        f"tests/test_{name}.py": f"{head}READ = {read}\n{TEST.replace('test_k', f'test_{name}')}"
        for name, read in READS.items()
    }
    two_versions(project, "pkg", {**tests, "data": "x", ".gitignore": ".build\n"})
    project.session("--gpuperf-against=HEAD", *tests)
    found = project.settlements()
    assert {found[f"test_{name}"].how for name in READS} == {"impossible"}
    reasons = [found[f"test_{name}"].reason.partition(";")[0] for name in READS]
    assert reasons[:3] == ["file data was loaded from data of the checkout"] * 3
    assert reasons[3] == "file kernels.so (.build/kernels.so) is not in git, so old code has none"


FINDER = """
import sys
from importlib.util import spec_from_file_location

class Finder:
    find_spec = lambda name, *_: spec_from_file_location(name, {file!r}) if name == "pkg" else None

sys.meta_path.insert(0, Finder)
"""


def test_finder_bound_to_the_checkout_is_refused(project: Project, site: Path) -> None:
    test = "def test_{}(gpuperf):\n    import pkg\n    gpuperf.time(pkg.kernel)\n"
    two_versions(project, "src/pkg", {"tests/test_k.py": test.format("before") + test.format("k")})
    (site / "finder.py").write_text(FINDER.format(file=f"{project.root}/src/pkg/__init__.py"))
    (site / "finder.pth").write_text("import finder\n")
    found = compared(project)
    assert found.how == "impossible"
    assert "module pkg was loaded from src/pkg/__init__.py of the checkout" in found.reason
    assert "expected that of old code" in found.reason


def test_a_package_that_is_installed_is_refused(project: Project) -> None:
    """Refuse the copy of `pip install .`, which both sides would run."""
    project.forks = False
    two_versions(project, "src/msgspec")
    project.write({"tests/test_k.py": "import msgspec\ndef test_k(gpuperf): gpuperf.time(lambda: 10.0)\n"})
    project.commit({})
    found = compared(project)
    assert found.how == "impossible"
    assert found.reason.startswith(f"module msgspec is of the installed copy of the project{BUILDS}")


@pytest.mark.parametrize(
    ("file", "text", "packages", "refused"),
    [
        ("", "", [], True),
        ("setup.py", 'setup(ext_modules=[Extension("fast", ["fast.c"])])', [], True),
        ("setup.cfg", "[metadata]\nname = fast\n", [], True),
        ("pyproject.toml", '[project]\ndynamic = ["version"]\nname = "fast"\n', [], True),
        ("pyproject.toml", '[[tool.poetry.source]]\nname = "fast"\n', [], False),
        ("setup.py", "setup(name=NAME)", ["pkg"], True),
        ("setup.py", "setup(name=NAME)", ["other", "pkg"], False),
    ],
    ids=["origin", "setup.py", "setup.cfg", "pyproject.toml", "an index", "package", "also a package"],
)
def test_an_installed_extension_of_the_repository_is_refused(
    project: Project, site: Path, file: str, text: str, packages: list[str], *, refused: bool
) -> None:
    """Refuse a module that no folder of the repository is named after, by the rest of its distribution."""
    more = {file: text} if file else {}
    two_versions(project, "pkg", {"tests/test_k.py": f"import fast\n{TEST}", **more})
    (site / "fast.py").write_text("")
    info = site / "fast-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fast\nVersion: 1.0\n")
    (info / "RECORD").write_text("".join([*(f"{name}/__init__.py,,\n" for name in packages), "fast.py,,\n"]))
    if not file:
        (info / "direct_url.json").write_text(f'{{"dir_info": {{}}, "url": "file://{project.root}"}}')
    project.path.append(site)
    found = compared(project)
    said = f"module fast is of the installed copy of the project{BUILDS}"
    assert found.reason.startswith(said) is refused


def test_both_sides_use_the_plugin_of_the_run(project: Project) -> None:
    """Measure with the plugin of the run, even if the plugin is the project under test."""
    project.forks = False
    shutil.copytree(PLUGIN / "pytest_gpuperf", project.root / "pytest_gpuperf")
    old = dict.fromkeys(("pytest_gpuperf/__init__.py", "pytest_gpuperf/plugin/entry.py"), "raise ImportError")
    two_versions(project, "pkg", {**old, "pytest.ini": "[pytest]\npythonpath = .\n"})
    project.git("checkout", "--quiet", "HEAD", "--", "tests")
    for name in old:
        shutil.copy(PLUGIN / name, project.root / name)
    project.path.append(project.root)
    assert times(compared(project)) == (10.0, 8.0)
