"""Run measurements in fresh processes: start them ahead, give each its turn, end them reliably.

A child runs one function, `module:function`, with its end of a pipe. It first imports its modules, which
takes seconds and leaves the GPU alone, then waits for its turn. Its messages before a failure are kept.
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
    from collections.abc import Generator, Iterator, Mapping, Sequence

ROOT = Path(__file__).parent.parent
GRACE_S = 5.0
"""Time for a child to end by itself after its pipe is closed."""
YOUR_TURN = "your turn"


class ChildError(Exception):
    """Failure of a child, with the last line that it wrote."""


class Parent:
    """Connection of a child to its parent.

    Raises:
        EOFError, OSError: From its methods, if the parent has ended.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def wait_for_turn(self) -> None:
        """Block until nothing else is on the GPU."""
        self.hear()

    def tell(self, message: object) -> None:
        """Send a message that JSON can hold."""
        self._connection.send_bytes(json.dumps(message).encode())

    def hear(self) -> Any:
        """Return the parent's next message."""
        return json.loads(self._connection.recv_bytes())


class Child:
    """Process that runs one function.

    Args:
        target: `module:function`, called with a `Parent` and the arguments.
        arguments: Further arguments, as text.
        environment: Variables of its environment besides those of this process.
    """

    def __init__(
        self, target: str, arguments: Sequence[str] = (), *, environment: Mapping[str, str] | None = None
    ) -> None:
        # The file is deleted on close; the child keeps its own handle.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        ours, theirs = Pipe()
        self._connection = ours
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.children", str(theirs.fileno()), target, *arguments],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                # Unbuffered, so that the last line in the log explains the end.
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def begin(self) -> None:
        """Tell the child that it is its turn."""
        self.tell(YOUR_TURN)

    def tell(self, message: object) -> None:
        """Send a message; if the child has ended, the next `hear` reports it."""
        with suppress(OSError):
            self._connection.send_bytes(json.dumps(message).encode())

    def hear(self, limit_s: float) -> Any:
        """Return the child's next message.

        Raises:
            ChildError: No message came within `limit_s` seconds, or the child ended.
        """
        found = self._next(limit_s, limit_s)
        if found is None:
            raise self._failure("ended early")
        return found[0]

    def messages(self, limit_s: float) -> Iterator[Any]:
        """Yield the child's messages until it ends.

        Args:
            limit_s: Time for all messages, in seconds.

        Raises:
            ChildError: The child failed, or did not end in time.
        """
        end = time.monotonic() + limit_s
        while (found := self._next(max(0.0, end - time.monotonic()), limit_s)) is not None:
            yield found[0]

    def stop(self) -> None:
        """End the child and all processes that it started."""
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=GRACE_S)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def _next(self, wait_s: float, limit_s: float) -> tuple[Any] | None:
        """Return the next message, or None if the child ended successfully."""
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
    """Run children one after the other.

    Args:
        wanted: Target and arguments of each child.
        ahead: Import the next child's modules while one works. Use False for times by the host's clock.
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
    """On SIGTERM, end the children and write the results so far."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def say(text: str) -> None:
    """Print a line immediately."""
    print(text, flush=True)


def main(descriptor: str, target: str, *arguments: str) -> None:
    """Run as a child."""
    # Programs that the child starts must not keep the pipe open.
    os.set_inheritable(int(descriptor), False)
    module, _, function = target.partition(":")
    with Connection(int(descriptor)) as connection:
        getattr(importlib.import_module(module), function)(Parent(connection), *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
