"""Python programs in processes forked from a server that has the slow imports behind it."""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.util
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from io import TextIOWrapper
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest import unraisableexception

import loaded_once
from pytest_gpuperf.against import process_launcher
from pytest_gpuperf.processes import children

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType
    from typing import BinaryIO

_PATH = tuple(sys.path)
_OF_PYTEST = (
    *("_pytest.helpconfig", "_pytest.junitxml", "_pytest.pastebin", "_pytest.setuponly", "_pytest.setupplan"),
    *("_pytest.skipping", "_pytest.stepwise", "_pytest.threadexception", "_pytest.tracemalloc"),
    *("_pytest.unittest", "_pytest.warnings", "_pytest._argcomplete", "_pytest.faulthandler"),
    *("_pytest.unraisableexception", "pdb", "xml.etree.ElementTree"),
)
"""Modules that each run of pytest imports."""
if multiprocessing.current_process().name == "MainProcess":  # a process that it forks has no time to clean up
    # Here, not in the long TMPDIR of a test: the server's socket lies there.
    multiprocessing.util.get_temp_dir()
_SERVER = multiprocessing.get_context("forkserver")
_STARTING = threading.Lock()
# A process has one server, so this list counts for all that the tests fork, whatever forks it.
_SERVER.set_forkserver_preload(
    [
        *("forked", "pytest", "torch._dynamo", "triton", "triton_ready"),
        *("execnet.gateway", "docs.states", "docs.commands"),
        *loaded_once.MODULES,
        *_OF_PYTEST,
    ]
)


class ForkedPython:
    """A forked process with the part of `subprocess.Popen` that the package uses.

    Args:
        command: `-m pytest`, `-c` with code, or the path of a program, and the arguments.
        cwd: Working directory; by default the present one.
        env: Environment, by default the present one; of Python's own variables only PYTHONPATH has an effect.
        stdout: Takes the output, and the errors if `stderr` is not a file; with a number, nothing does.
        stderr: Takes the errors.
        stdin: Gives the input; none by default.
        pass_fds: At most one descriptor, which keeps its number in the process.
        start_new_session: Make the process the leader of a group.
        forking: Fork also the processes that it starts by itself.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdout: BinaryIO | int,
        stderr: BinaryIO | int = subprocess.STDOUT,
        stdin: BinaryIO | int = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
        start_new_session: bool = False,
        forking: bool = True,
        **_: Any,
    ) -> None:
        nothing = os.open(os.devnull, os.O_WRONLY)
        output = nothing if isinstance(stdout, int) else stdout.fileno()
        errors = output if isinstance(stderr, int) else stderr.fileno()
        given = {1: output, 2: errors, **{number: number for number in pass_fds}}
        if not isinstance(stdin, int):
            given[0] = stdin.fileno()
        # multiprocessing hands over the descriptors of connections.
        fds = [(number, Connection(os.dup(fd))) for number, fd in given.items()]
        os.close(nothing)
        given_to_process = (
            list(command),
            cwd or Path.cwd(),
            dict(os.environ if env is None else env),
            fds,
            start_new_session,
            forking,
        )
        _ensure_server()
        self._process = _SERVER.Process(target=_start, args=given_to_process)
        self._process.start()
        self.pid = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        """Exit status; negative for the signal that ended the process, None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit status."""
        return self.returncode

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return self.returncode


def fork_workers(*, forking: bool = True) -> None:
    """Fork the workers of pytest-xdist, which execnet would start with a new Python.

    Args:
        forking: Fork also the processes that workers start by themselves.
    """
    from execnet import gateway_io
    from execnet.gateway_base import Popen2IO

    def start(self: gateway_io.Popen2IOMaster, args: list[str], execmodel: Any) -> None:
        theirs, to_worker = os.pipe()
        from_worker, output = os.pipe()
        with (
            os.fdopen(theirs, "rb") as given,
            os.fdopen(output, "wb") as taken,
            os.fdopen(os.dup(2), "wb") as errors,
        ):
            bootstrap = args[args.index("-c") :]
            process: Any = ForkedPython(bootstrap, stdin=given, stdout=taken, stderr=errors, forking=forking)
        process.stdin, process.stdout = os.fdopen(to_worker, "wb"), os.fdopen(from_worker, "rb")
        self.popen = process
        Popen2IO.__init__(self, process.stdin, process.stdout, execmodel=execmodel)

    vars(gateway_io)["Popen2IOMaster"].__init__ = start


def parent_of_forks() -> int:
    """Return the id of the server, which is the parent of all forks."""
    _ensure_server()
    own: int | None = vars(forkserver._forkserver)["_forkserver_pid"]
    return own or os.getppid()  # a fork has no server of its own


def _ensure_server() -> None:
    server = forkserver._forkserver
    with _STARTING, pytest.MonkeyPatch.context() as patch:
        if vars(server)["_forkserver_pid"] is None:
            # The server of Python 3.11 has a path of its own, and skips modules that it does not find.
            patch.setenv("PYTHONPATH", os.pathsep.join(_PATH))
        server.ensure_running()


def fork_children(patch: Callable[[ModuleType, str, ModuleType], None], *others: ModuleType) -> None:
    """Fork the Python programs that the package starts with `subprocess.Popen`.

    Args:
        patch: Replaces an attribute of a module.
        others: Modules of features that start some.
    """
    forking = type(subprocess)("subprocess")
    vars(forking).update(vars(subprocess), Popen=_started)
    for module in (children, process_launcher, *others):
        patch(module, "subprocess", forking)


def _started(command: Sequence[str], **given: Any) -> ForkedPython | subprocess.Popen[bytes]:
    if command[0] == sys.executable:
        return ForkedPython(command[1:], **given)
    with Path(command[0]).open("rb") as program:
        is_python = program.readline().rstrip() == f"#!{sys.executable}".encode()
    return ForkedPython(command, **given) if is_python else subprocess.Popen(command, **given)


def call(command: list[str]) -> int:
    """Run a Python program in a fork of this process; return its exit status, as `subprocess.call` does."""
    child = os.fork()
    if child == 0:
        run_python(command[1:])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_forked(
    arguments: tuple[str, ...],
    environ: Mapping[str, str],
    logs: tuple[Path, Path],
    timeout_s: float | None,
    cwd: Path | None = None,
) -> int:
    """Run pytest as `python -m pytest` does; return its exit status."""
    command = ["-m", "pytest", *arguments]
    with logs[0].open("wb") as out, logs[1].open("wb") as errors:
        process = ForkedPython(command, cwd=cwd or Path.cwd(), env=environ, stdout=out, stderr=errors)
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        raise


def _start(
    command: list[str],
    folder: Path,
    environ: Mapping[str, str],
    fds: list[tuple[int, Connection]],
    new_session: bool,
    forking: bool,
) -> None:
    if new_session:
        os.setsid()
    for number, connection in fds:
        os.dup2(connection.fileno(), number)
        if connection.fileno() != number:
            connection.close()  # else its own forks would keep the other end waiting
    if any(number == 0 for number, _ in fds):
        # The streams of the server belong to a file; these are pipes.
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, TextIOWrapper)
        stream.reconfigure(encoding="utf-8")
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    tempfile.tempdir = None  # the server has kept its own; TMPDIR may be another
    path = [*filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:] = list(dict.fromkeys([*path, *_PATH]))
    # A new Python would import it.
    custom = next(filter(Path.is_file, (Path(part, "sitecustomize.py") for part in path)), None)
    if custom:
        runpy.run_path(str(custom))
    if sys.version_info < (3, 14):
        # multiprocessing would start a second server, though this one takes requests of its own processes.
        vars(forkserver._forkserver).update(ensure_running=lambda: None, _forkserver_pid=os.getppid())
    if forking:
        fork_children(setattr)
        fork_workers()
    # pytest collects garbage at the end of each run, which takes long with torch's objects.
    gc.freeze()
    vars(unraisableexception)["gc_collect_harder"] = lambda *_: None
    run_python(command)


def run_python(command: list[str]) -> None:
    """Run a program in this process as `python COMMAND...` does."""
    if command[0] == "-m":
        sys.argv = command[1:]
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    elif command[0] == "-c":
        sys.argv = ["-c", *command[2:]]
        exec(command[1], {"__name__": "__main__"})
    else:
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")
