"""Side processes that are forked from a server, which has imported the slow packages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from against_environment import environment
from against_pass_project import TEST, K, found, record, ten_microseconds
from pytest_gpuperf.against import fork_server, process_launcher
from pytest_gpuperf.compat.compiler_names import HASHES

if TYPE_CHECKING:
    from against_project import Project

USES_IT = "import slow_package\n" + TEST
SERVER_ONLY = "import sys\nif sys.argv[0].endswith('fork_server.py'): "
NOTE = """
import os
with open({!r}, "a") as stream:
    stream.write(f"{{os.getpid()}}\\n")
"""


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    """Name the file to which each import of the slow package adds its process."""
    return tmp_path / "imports"


@pytest.fixture
def project(tmp_path: Path, witness: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Make a project whose test imports a slow package, as the run has done."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "slow_package.py").write_text(NOTE.format(str(witness)))
    monkeypatch.setattr(process_launcher, "SLOW", ("slow_package",))
    loaded = ModuleType("slow_package")
    loaded.__file__ = "slow_package.py"
    monkeypatch.setitem(sys.modules, "slow_package", loaded)
    made = ten_microseconds(tmp_path / "repo")
    made.path.append(folder)
    made.commit({"test_k.py": USES_IT})
    return made


def imports(witness: Path) -> int:
    return len(witness.read_text().splitlines())


def test_slow_packages_are_imported_once_for_all_side_processes(project: Project, witness: Path) -> None:
    project.commit({"kernels.py": "import os\ndef kernel(): return float(os.getpid())\n"})
    paired = project.compare(K, looks=(3,))
    processes = {block.time_us for restart in found(paired).restarts for block in restart.blocks}
    assert (imports(witness), len(processes)) == (1, 6)
    assert paired.notices == []


def test_each_environment_has_its_own_server(project: Project, witness: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "old", 1, 10.0)
    with (project.path[0] / "slow_package.py").open("a") as stream:
        stream.write("import sys\nPREFIX = sys.prefix")
    kernel = "import slow_package\ndef kernel(): return 9.0 + slow_package.PREFIX.endswith('old')\n"
    project.commit({"kernels.py": kernel})
    paired = project.compare(K, looks=(3,), python=python)
    compared = record(paired)
    assert (compared.old_us, compared.new_us, len(compared.log_ratios)) == (10.0, 9.0, 3)
    assert (imports(witness), paired.notices) == (2, [])


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (
            "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
            "the import of slow_package started a thread",
        ),
        (SERVER_ONLY + "raise OSError", "an import failed with OSError"),
        (SERVER_ONLY + "os.write(2, b'no luck'); os._exit(3)", "it has ended: no luck"),
    ],
)
def test_processes_import_by_themselves_if_the_server_cannot_fork(
    project: Project, witness: Path, code: str, why: str
) -> None:
    with (project.path[0] / "slow_package.py").open("a") as stream:
        stream.write(code)
    paired = project.compare(K, looks=(1,))
    assert found(paired).decision is not None
    assert imports(witness) == 3
    (notice,) = paired.notices
    assert notice.startswith("no process could be forked, so each one imports by itself: ")
    assert why in notice


def test_sides_import_what_the_test_needs_before_its_turn(
    project: Project, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that imports in its turn keeps the other waiting, which then does the same."""
    note = "import os\nopen(os.environ['WITNESS'], 'a').write('{}\\n')\n"
    monkeypatch.setenv("WITNESS", str(witness))
    (project.path[0] / "late_package.py").write_text(note.format("import"))
    project.commit_test(TEST + "    " + note.format("test").replace("\n", "\n    ", 1))
    compared = project.compare(K, looks=(1,), imports=("gone_package", "late_package"))
    assert found(compared).decision is not None
    _, *order = witness.read_text().split()
    assert order == ["import", "import", "test", "test"]


def test_one_server_serves_all_tests(project: Project, witness: Path) -> None:
    project.commit({"test_more.py": USES_IT})
    paired = project.compare(K, "test_more.py::test_k", looks=(1,))
    assert found(paired, "test_more.py::test_k").decision is not None
    assert imports(witness) == 1


def test_server_has_the_environment_of_the_runs_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages read variables when they are imported, and a test may have set one for itself."""
    before = dict(os.environ)
    monkeypatch.setenv("TORCH_LOGS", "recompiles")
    server = process_launcher.ForkServer(sys.executable, before, ["/"])
    place = Path(f"/proc/{vars(server)['_process'].pid}/environ")
    assert b"TORCH_LOGS" not in place.read_bytes()
    server.close()


def test_comparison_goes_on_without_the_server(project: Project, witness: Path) -> None:
    """Kill the server in the first restart: its forks go on, and the next ones import by themselves."""
    # Not its parent: once the server has ended, that is another process.
    kills = f"""
import os
server, *others = open({str(witness)!r}).read().split()
if not others: os.system(f"kill -9 {{server}}")
"""
    project.commit({"test_k.py": USES_IT + kills})
    paired = project.compare(K, looks=(2,))
    assert len(found(paired).restarts) == 2
    assert imports(witness) == 3
    assert "it has ended" in paired.notices[0]


def test_a_fork_that_nobody_asks_for_its_status_has_ended() -> None:
    """In a container, the process that inherits the forks of a lost server may never ask."""
    server = process_launcher.ForkServer(sys.executable, os.environ, ["/"])
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    fork = process_launcher._Forked(server, child.pid)
    server.close()
    assert fork.wait(timeout=5) == -signal.SIGKILL
    child.wait()


def test_modules_of_the_checkout_are_not_shared(project: Project, witness: Path) -> None:
    source = (project.path.pop() / "slow_package.py").read_text()
    project.commit({"slow_package.py": source})
    project.path.append(project.root)
    paired = project.compare(K, looks=(1,))
    assert found(paired).decision is not None
    assert "slow_package is a module of the checkout" in paired.notices[0]
    assert imports(witness) == 3


def test_the_program_of_the_server_may_be_in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in this repository."""
    program = ModuleType("__main__")
    program.__file__ = fork_server.__file__
    monkeypatch.setitem(sys.modules, "__main__", program)
    root = Path(fork_server.__file__).parents[1]
    for name in [name for name in sys.modules if name.startswith("pytest_gpuperf")]:
        monkeypatch.delitem(sys.modules, name)
    assert fork_server.of_one_side(str(root)) == ""
    monkeypatch.setitem(sys.modules, "other", program)
    assert fork_server.of_one_side(str(root)) == "other is a module of the checkout"


def test_module_that_is_a_link_into_the_checkout_is_of_one_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkout").mkdir()
    (tmp_path / "site").mkdir()
    (tmp_path / "checkout" / "linked.py").touch()
    (tmp_path / "site" / "linked.py").symlink_to(tmp_path / "checkout" / "linked.py")
    linked = ModuleType("linked")
    linked.__file__ = str(tmp_path / "site" / "linked.py")
    monkeypatch.setitem(sys.modules, "linked", linked)
    checkout = str(tmp_path / "checkout")
    assert fork_server.of_one_side(checkout) == "linked is a module of the checkout"


def test_forks_do_not_keep_the_name_of_the_servers_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing `multiprocessing` adds it; this repository holds the program."""
    monkeypatch.setitem(sys.modules, "__mp_main__", sys.modules["__main__"])
    fork_server.load([])
    assert "__mp_main__" not in sys.modules


@pytest.mark.parametrize(("owner", "name"), HASHES)
def test_a_compiler_hashes_itself_ahead(monkeypatch: pytest.MonkeyPatch, owner: str, name: str) -> None:
    for other, _ in HASHES:
        monkeypatch.setitem(sys.modules, other, ModuleType(other))
    hashed: list[str] = []
    monkeypatch.setattr(sys.modules[owner], name, lambda: hashed.append(owner), raising=False)
    assert fork_server.load([]) in ("", "an import initialised CUDA", "an import started a thread")
    assert hashed == [owner]


def test_no_server_starts_if_nothing_slow_was_imported() -> None:
    assert process_launcher.slow_imports({"numpy": fork_server}) == []
    assert process_launcher.slow_imports({"torch": ModuleType("torch")}) == []
    assert process_launcher.slow_imports({"torch": fork_server, "numpy": fork_server}) == ["numpy", "torch"]


@pytest.mark.parametrize(("code", "expected"), [(0, True), (201, True), (3, False)])
def test_initialised_cuda_is_seen(monkeypatch: pytest.MonkeyPatch, code: int, expected: bool) -> None:
    driver = SimpleNamespace(cuCtxGetCurrent=lambda _context: code)
    monkeypatch.setattr("ctypes.CDLL", lambda _name, mode: driver)
    assert fork_server.cuda_initialised() is expected
