"""Fresh processes for what must not share one: started ahead, told when it is their turn, ended for certain.

A child runs one function of ours, `module:function`, with its end of a pipe. It imports what it needs, which
takes seconds and leaves the GPU alone, then waits for its turn. What it has said before it fails is not lost.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

ROOT = Path(__file__).parent.parent
GRACE_S = 5.0
"""For a child to end by itself, once nobody listens."""
YOUR_TURN = "your turn"


class ChildError(Exception):
    """A child has failed; says how, with the last line that it wrote."""


class Parent:
    """The parent, as a child sees it.

    Raises:
        EOFError, OSError: Its methods, where the parent has gone.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def wait_for_turn(self) -> None:
        """Block until nothing else is on the GPU."""
        self.hear()

    def tell(self, message: object) -> None:
        """Say something that JSON can hold."""
        self._connection.send_bytes(json.dumps(message).encode())

    def hear(self) -> Any:
        """What the parent says next."""
        return json.loads(self._connection.recv_bytes())


class Child:
    """A process of its own.

    Args:
        target: `module:function`; it is called with a `Parent` and the arguments.
        arguments: Texts.
    """

    def __init__(self, target: str, arguments: Sequence[str] = ()) -> None:
        # Deleted when it is closed; the child has it open by then.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        ours, theirs = Pipe()
        self._connection = ours
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.children", str(theirs.fileno()), target, *arguments],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                # What it says last is what it says of its end, also where its output is buffered otherwise.
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def begin(self) -> None:
        """It is its turn."""
        self.tell(YOUR_TURN)

    def tell(self, message: object) -> None:
        """Say something; where the child has gone, the next answer shows it."""
        with suppress(OSError):
            self._connection.send_bytes(json.dumps(message).encode())

    def hear(self, limit_s: float) -> Any:
        """What it says next.

        Raises:
            ChildError: Nothing, in so many seconds.
        """
        found = self._next(limit_s, limit_s)
        if found is None:
            raise self._failure("ended early")
        return found[0]

    def messages(self, limit_s: float) -> Iterator[Any]:
        """What it says until it ends.

        Args:
            limit_s: For all of it, in seconds.

        Raises:
            ChildError: It fails, or is not done in time.
        """
        end = time.monotonic() + limit_s
        while (found := self._next(max(0.0, end - time.monotonic()), limit_s)) is not None:
            yield found[0]

    def stop(self) -> None:
        """Make sure that it has ended, and what it has started with it."""
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=GRACE_S)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def _next(self, wait_s: float, limit_s: float) -> tuple[Any] | None:
        """The next message; None where the child has ended well."""
        try:
            if not self._connection.poll(wait_s):
                raise self._failure(f"was not done in {limit_s:.0f} s")
            return (json.loads(self._connection.recv_bytes()),)
        except (EOFError, OSError):
            pass
        with suppress(subprocess.TimeoutExpired):
            if self._process.wait(timeout=GRACE_S) == 0:
                return None
        raise self._failure(f"ended with status {self._process.returncode}")

    def _failure(self, how: str) -> ChildError:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ChildError(f"{how}: {last}" if last else how)


def in_turn(
    wanted: Sequence[tuple[str, Sequence[str]]], *, ahead: bool = True
) -> Generator[Child, None, None]:
    """Children one after the other.

    Args:
        wanted: Target and arguments of each.
        ahead: Whether each imports while the one before it works. What times the host should have it for
            itself.
    """
    waiting: list[Child] = []
    try:
        for at, (target, arguments) in enumerate(wanted):
            child = waiting.pop() if waiting else Child(target, arguments)
            try:
                if ahead and at + 1 < len(wanted):
                    waiting.append(Child(*wanted[at + 1]))
                child.begin()
                yield child
            finally:
                child.stop()
    finally:
        for child in waiting:
            child.stop()


def end_in_order_when_told() -> None:
    """Have SIGTERM, as of a time limit, end the children too, and let what there is be written."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def say(text: str) -> None:
    """Print a line at once: whoever waits on a GPU wants to know."""
    print(text, flush=True)


def main(descriptor: str, target: str, *arguments: str) -> None:
    """Be a child."""
    # Programs that it starts must not keep the pipe open.
    os.set_inheritable(int(descriptor), False)
    module, _, function = target.partition(":")
    with Connection(int(descriptor)) as connection:
        getattr(importlib.import_module(module), function)(Parent(connection), *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
