"""Start side processes: forked from a server that has the slow imports behind it, or each by itself."""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.against import fork_server
from pytest_gpuperf.against.fork_server import LIBRARIES, LONGEST, SLOW
from pytest_gpuperf.processes.children import end_group, start

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from multiprocessing.connection import Connection
    from typing import Any, BinaryIO

    from pytest_gpuperf.against.sides import Sides
    from pytest_gpuperf.processes.children import Leader
    from pytest_gpuperf.statistics.sequential import Side

IMPORT_S = 120.0
"""Seconds that the server's imports may take."""
ANSWER_S = 20.0
"""Seconds within which the server answers an order."""
POLL_S = 0.05
# Python would put the folder of a program on the import path: here it holds modules with names of others'.
RUN = """import sys
sys.path[:] = filter(None, sys.path)
import runpy
runpy.run_path(sys.argv.pop(1), run_name="__main__")"""


class ServerLostError(Exception):
    """The server has ended, or does not answer."""


class Launcher:
    """Starts side processes; its servers, one for each Python, stay until the end.

    Args:
        programs: The programs of Python of the sides.
        checkout: Top folder of the checkout: nothing of it may be imported by a server.
        environment: Environment of the servers.
        tick: Called while they import.
    """

    def __init__(
        self,
        programs: Collection[str],
        checkout: Path,
        environment: Mapping[str, str],
        tick: Callable[[], None],
    ) -> None:
        self._tick = tick
        self._servers: dict[str, ForkServer] = {}
        self.why_not = ""
        """Why each process imports by itself; empty if they are forked, or if there is nothing slow."""
        if sys.platform == "linux" and (modules := slow_imports(sys.modules)):
            asked = [str(checkout), *modules]
            self._servers = {program: ForkServer(program, environment, asked) for program in programs}

    def start(self, sides: Sides, side: Side, channel: Connection, log: BinaryIO) -> Leader:
        """Start the process of a side; it leads its own group.

        Args:
            sides: Has its command and environment; its plan is written.
            side: The side.
            channel: Its end of the socket.
            log: Takes its output.
        """
        plan = sides.plan_file(side)
        command, cwd, environment = sides.command(side), str(sides.cwd(side)), sides.environment(side, plan)
        if self._servers:
            try:
                # If one cannot fork, none does: both sides begin alike.
                for server in self._servers.values():
                    server.wait(self._tick)
                order = {"command": command[1:], "cwd": cwd, "environment": environment, "plan": str(plan)}
                return self._servers[command[0]].fork(plan.with_suffix(".order"), order, channel, log)
            except ServerLostError as error:
                self.close()
                self.why_not = str(error)
        return start(command, log, environment, cwd, [channel.fileno()])

    def close(self) -> None:
        """End the servers; the processes go on."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()


def slow_imports(loaded: Mapping[str, Any]) -> list[str]:
    """Return the modules that a server should import: those of the run that take seconds."""
    slow = [name for name in SLOW if getattr(loaded.get(name), "__file__", None)]
    return [*(name for name in LIBRARIES if name in loaded), *slow] if slow else []


class ForkServer:
    """The server, as the run sees it; it ends with the run.

    Args:
        program: The program of Python.
        environment: Its environment: packages read it when they are imported.
        asked: The folder of the checkout, then the modules that it imports.
    """

    def __init__(self, program: str, environment: Mapping[str, str], asked: Sequence[str]) -> None:
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        with theirs:
            command = [program, "-c", RUN, fork_server.__file__, str(theirs.fileno())]
            self._process = start(command, self._log, environment, pass_fds=[theirs.fileno()])
        with suppress(OSError):
            # If the server has ended, the missing answer shows that.
            self._end.send(json.dumps(asked).encode())
        self._ready = False

    def wait(self, tick: Callable[[], None]) -> None:
        """Wait for the imports.

        Raises:
            ServerLostError: No process can be forked from the server.
        """
        if self._ready:
            return
        end = time.monotonic() + IMPORT_S
        while not self._answers(POLL_S):
            if time.monotonic() > end:
                raise ServerLostError(f"its imports took more than {IMPORT_S:.0f} s")
            tick()
        _, why = self._answer()
        if why:
            raise ServerLostError(str(why))
        self._ready = True

    def fork(self, path: Path, order: Mapping[str, object], channel: Connection, log: BinaryIO) -> _Forked:
        """Fork a process.

        Raises:
            ServerLostError: The server does not answer.
        """
        path.write_bytes(msgspec.json.encode(order))
        return _Forked(self, self.ask(str(path), [channel.fileno(), log.fileno()]))

    def close(self) -> None:
        """End it."""
        self._end.close()
        self._log.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
            return
        end_group(self._process, grace_s=1)

    def ask(self, question: str | int, descriptors: Sequence[int] = ()) -> Any:
        """Return the pid of a fork by the file of its order; by a pid its exit status, None while it runs.

        Raises:
            ServerLostError: The server does not answer.
        """
        try:
            socket.send_fds(self._end, [json.dumps(question).encode()], [*descriptors])
        except OSError:
            raise self._gone() from None
        while self._answers(ANSWER_S):
            asked, answer = self._answer()
            if asked == question:
                return answer
        raise ServerLostError(f"it has not answered for {ANSWER_S:.0f} s")

    def _answers(self, wait_s: float) -> bool:
        return bool(select.select([self._end], [], [], wait_s)[0])

    def _answer(self) -> Any:
        try:
            message = self._end.recv(LONGEST)
        except OSError:
            message = b""
        if not message:
            raise self._gone()
        return json.loads(message)

    def _gone(self) -> ServerLostError:
        if self._log.closed:
            return ServerLostError("it was ended")
        self._log.seek(0)
        said = self._log.read().decode(errors="replace").strip().splitlines()
        return ServerLostError(": ".join(["it has ended", *said[-1:]]))


class _Forked:
    """A forked process, with the part of `subprocess.Popen` that a side process needs."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Look for the end, and return the exit status; that of a kill if only the server knew it."""
        if self.returncode is None:
            try:
                self.returncode = self._server.ask(self.pid)
            except ServerLostError:
                self.returncode = None if _runs(self.pid) else -signal.SIGKILL
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end.

        Raises:
            subprocess.TimeoutExpired: The process still runs.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(POLL_S / 5)
        return status


def _runs(pid: int) -> bool:
    """Return False also for a process that has ended but whose new parent has not asked for its status."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")
