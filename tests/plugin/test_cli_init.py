"""`gpuperf init` in many kinds of repositories."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from inline_snapshot import snapshot
from tox.run import main as run_tox

from pytest_gpuperf.cli import main
from pytest_gpuperf.cli.init.plan import packaged

ROOT = Path(__file__).parents[2]
SUITE = "perf/test_perf_example.py"
CONFTEST = "perf/conftest.py"
NAMES = ("gpuperf", "against", "comment", "replay")
WORKFLOWS = [f".github/workflows/{name}.yml" for name in NAMES]
OURS = "pytest-gpuperf\ntorch\n" + "".join(
    f'{name}; sys_platform == "linux"\n' for name in ("triton", "ncu-report")
)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository with a package only."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*arguments: str, status: int = 0) -> list[str]:
    result: Result = CliRunner().invoke(main, ["init", *arguments])
    assert result.exit_code == status, result.output
    return result.output.splitlines()


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }


def tox(*arguments: str) -> dict[str, str]:
    """Return settings of the environment as tox reads them, in this process: tox takes a second to import."""
    shown = io.StringIO()
    with redirect_stdout(shown):
        assert run_tox(["config", "-e", "gpuperf", "-k", *arguments]) == 0
    head, *lines = shown.getvalue().splitlines()
    assert head == "[testenv:gpuperf]"
    settings: dict[str, str] = {}
    for line in lines:
        if not line.startswith(" "):
            key, _, line = line.partition(" =")
            settings[key] = ""
        settings[key] += f"{line.strip()}\n" if line else ""
    return settings


def test_output_names_files_and_next_commands(repository: Path) -> None:
    assert init() == snapshot(
        [
            "wrote     perf/test_perf_example.py: a suite to put your kernels into",
            "wrote     perf/conftest.py: leaves it out if the plugin or torch is missing",
            "wrote     tox.ini: the tox environment gpuperf",
            "wrote     .github/workflows/gpuperf.yml: measures on your runner with a GPU",
            "wrote     .github/workflows/against.yml: compares old and new code, if a label asks for it",
            "wrote     .github/workflows/comment.yml: comments on the pull request, without its code",
            "wrote     .github/workflows/replay.yml: judges the recording again on a hosted runner",
            "wrote     .gitignore: .gpuperf/, where runs are kept",
            "",
            "Next, on a machine with a GPU:",
            "  gpuperf doctor                              is it ready to measure?",
            "  pytest --gpuperf perf --gpuperf-update=new  measure, and make that the baseline",
            "  gpuperf record                       let machines without a GPU replay it",
            "Commit the new files in baselines/, then the workflows: replay.yml fails without a",
            "recording. From then on, with or without a GPU:",
            "  pytest --gpuperf perf",
        ]
    )
    written = {SUITE, CONFTEST, *WORKFLOWS, "tox.ini", ".gitignore"}
    assert content(repository).keys() == {*written, "pyproject.toml"}


def test_second_call_changes_nothing(repository: Path) -> None:
    init()
    before = content(repository)
    lines = init()
    assert all(line.startswith("kept ") for line in lines[:-1])
    assert lines[-1] == "nothing to write: every file is there"
    assert content(repository) == before


def test_missing_file_is_written_again(repository: Path) -> None:
    init()
    (repository / SUITE).unlink()
    assert [line for line in init() if line.startswith("wrote")] == [
        f"wrote     {SUITE}: a suite to put your kernels into"
    ]


@pytest.mark.parametrize("name", [SUITE, WORKFLOWS[0]])
def test_file_that_differs_is_never_overwritten(repository: Path, name: str) -> None:
    (repository / name).parent.mkdir(parents=True)
    (repository / name).write_text("mine\n", encoding="utf-8")
    assert f"kept      {name}: yours differs; remove it to have it written again" in init()
    assert (repository / name).read_text(encoding="utf-8") == "mine\n"


def test_existing_suite_gets_no_example(repository: Path) -> None:
    init()
    (repository / SUITE).rename(repository / "perf" / "test_mine.py")
    (repository / CONFTEST).unlink()
    assert init()[0] == "kept      perf/test_mine.py: your suite is there, so no example is needed"
    assert not (repository / SUITE).exists()
    assert not (repository / CONFTEST).exists()


@pytest.mark.parametrize("there", ["", "build/\n", "build/", "build/\r\n*.so\r\n"])
def test_gitignore_keeps_its_entries_and_gets_the_runs(repository: Path, there: str) -> None:
    (repository / ".gitignore").write_bytes(there.encode())
    init()
    after = (repository / ".gitignore").read_bytes().decode()
    assert after.startswith(there)
    assert after.splitlines() == [*there.splitlines(), ".gpuperf/"]
    assert after.endswith("\r\n" if "\r" in there else "\n")


@pytest.mark.parametrize("line", [".gpuperf", "/.gpuperf/", ".gpuperf/  "])
def test_gitignore_is_extended_once(repository: Path, line: str) -> None:
    (repository / ".gitignore").write_text(line, encoding="utf-8")
    assert "kept      .gitignore: has .gpuperf/" in init()
    assert (repository / ".gitignore").read_text(encoding="utf-8") == line


def test_workflows_are_left_out_below_the_repository_top(repository: Path) -> None:
    below = repository / "packages" / "kernels"
    below.mkdir(parents=True)
    assert any("kept      packages/kernels/.github/workflows: left out" in line for line in init(str(below)))
    assert content(below).keys() == {SUITE, CONFTEST, "tox.ini", ".gitignore"}


def test_folder_without_git_gets_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "not in a git repository: type `git init`, because baselines have to be committed" in init()
    assert (tmp_path / SUITE).exists()


def test_link_stays_a_link(repository: Path) -> None:
    (repository / "shared.ini").write_text("[tox]\n", encoding="utf-8")
    (repository / "tox.ini").symlink_to("shared.ini")
    init()
    assert (repository / "tox.ini").is_symlink()
    assert "[testenv:gpuperf]" in (repository / "shared.ini").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "broken", "said"),
    [
        ("tox.ini", b"[tox]\n[tox]\n", "tox.ini cannot be read: "),
        ("tox.ini", b"\xff", "is not text; expected UTF-8"),
        ("setup.cfg", b"no section", "setup.cfg cannot be read: "),
        ("pyproject.toml", b"[project", "pyproject.toml cannot be read: "),
        (".gitignore", b"\xff", "is not text; expected UTF-8"),
        ("perf", b"", "test_perf_example.py cannot be read: Not a directory"),
    ],
)
def test_broken_file_stops_all_writing(repository: Path, name: str, broken: bytes, said: str) -> None:
    (repository / name).write_bytes(broken)
    before = content(repository)
    [line] = init(status=2)
    assert line.startswith("gpuperf: error: ")
    assert said in line
    assert content(repository) == before


def test_unwritable_file_stops_all_writing(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    before = content(repository)
    monkeypatch.setattr("os.fsync", full)
    [line] = init(status=2)
    assert line.startswith("gpuperf: error: nothing was written: [Errno 28] No space left on device")
    assert content(repository) == before


@pytest.mark.parametrize("folder", ["missing", "pyproject.toml"])
def test_dir_has_to_be_a_directory(repository: Path, folder: str) -> None:
    assert folder in init(folder, status=2)[-1]


@pytest.mark.parametrize(
    ("name", "there", "dependencies"),
    [
        ("tox.ini", "[tox]\nenv_list = py\n\n[testenv]\ndeps = numpy\npass_env = MINE_*\n", "numpy\n"),
        ("tox.ini", "[testenv]\r\ndeps =\r\n    numpy\r\npassenv = MINE_*\r\n", "numpy\n"),
        ("tox.ini", "[flake8]\nmax-line-length = 100", ""),
        (
            "setup.cfg",
            "[metadata]\nname = mine\n\n[tox:tox]\nenvlist = py\n[testenv]\ndeps = numpy\n",
            "numpy\n",
        ),
        ("tox.toml", '[env_run_base]\ndeps = ["numpy"]\npass_env = ["MINE_*"]\n', "numpy\n"),
        ("tox.toml", 'env_list = ["py"]\n[env.py]\ndeps = ["numpy"]\n', ""),
        ("pyproject.toml", '[tool.tox.env_run_base]\ndeps = ["numpy"]\n\n[tool.ruff]\n', "numpy\n"),
        (
            "pyproject.toml",
            '[tool.tox]\nlegacy_tox_ini = """\n[testenv]\ndeps = numpy\n"""\n[tool.ruff]\nfix = true\n',
            "numpy\n",
        ),
    ],
    ids=["ini", "CRLF", "no [tox]", "setup.cfg", "toml", "toml, no base", "pyproject", "legacy"],
)
def test_environment_goes_into_the_tox_file_of_the_repository(
    repository: Path, name: str, there: str, dependencies: str
) -> None:
    project = '[project]\nname = "mine"\n\n' if name == "pyproject.toml" else ""
    (repository / name).write_bytes((project + there).encode())
    assert f"added to  {name}: the tox environment gpuperf" in init()
    assert {path for path in content(repository) if "tox" in path} == {name} - {"setup.cfg", "pyproject.toml"}
    settings = tox("deps", "commands", "pass_env")
    assert settings["deps"] == dependencies + OURS
    assert settings["commands"] == "pytest --gpuperf perf\n"
    assert tox("commands", "--", "perf", "-k", "square")["commands"] == "pytest --gpuperf perf -k square\n"
    assert {"CUDA_*", "CI"} | ({"MINE_*"} if "MINE" in there else set()) <= set(settings["pass_env"].split())
    after = (repository / name).read_bytes()
    assert (b"\r\n" in after) == ("\r\n" in there)
    assert after.count(b"\r\n") in (0, after.count(b"\n"))
    init()
    assert (repository / name).read_bytes() == after


def test_project_without_a_package_is_imported_from_its_folder(repository: Path) -> None:
    (repository / "pyproject.toml").write_text("[tool.ruff]\n", encoding="utf-8")
    init()
    settings = tox("skip_install", "commands")
    assert settings["skip_install"] == "True\n"
    assert settings["commands"] == "python -m pytest --gpuperf perf\n"


@pytest.mark.parametrize("section", ["testenv:gpuperf", "testenv:{py, gpuperf}"])
def test_environment_of_that_name_is_kept(repository: Path, section: str) -> None:
    text = f"[{section}]\ncommands = true\n"
    (repository / "tox.ini").write_text(text, encoding="utf-8")
    assert "kept      tox.ini: has the environment gpuperf" in init()
    assert (repository / "tox.ini").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "text",
    [
        '[tool]\ntox = { env_list = ["py"] }\n',
        '[tool.tox]\nenv = { py = { deps = ["numpy"] } }\n',
        '[tool.tox]\nlegacy_tox_ini = "[tox]\\nenv_list = py"\n',
    ],
    ids=["inline table", "inline environments", "escaped"],
)
def test_inextensible_toml_is_left_to_its_owner(repository: Path, text: str) -> None:
    (repository / "pyproject.toml").write_text(text, encoding="utf-8")
    lines = init()
    said = lines.index("kept      pyproject.toml: has a format that only you can extend")
    assert lines[said + 1].startswith(("    [tool.tox.env.gpuperf]", "    [testenv:gpuperf]"))
    assert any("--gpuperf" in line for line in lines[said:])
    assert lines[-1] == "  pytest --gpuperf perf"
    assert "nothing to write: every file is there" not in init()
    assert (repository / "pyproject.toml").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_equal_those_of_this_repository(name: str) -> None:
    ours = (ROOT / name).read_text(encoding="utf-8")
    for here, there in {
        "tox run -e suites -- suites ": "tox run -e gpuperf -- perf ",
        "tox run -e suites -- ": "tox run -e gpuperf -- ",
        "tests=(suites)": "tests=(perf)",
        "pip install .\n": "pip install pytest-gpuperf\n",
        "tox run -e suites\n": "tox run -e gpuperf\n",
    }.items():
        ours = ours.replace(here, there)
    assert packaged(Path(name).name) == ours
