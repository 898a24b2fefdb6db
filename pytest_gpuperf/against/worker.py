"""A worker process, as the session sees it."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import suppress
from multiprocessing import Pipe
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.against.messages import SessionEnd
from pytest_gpuperf.processes.signals import end_group

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_gpuperf.against.launch import Launch
    from pytest_gpuperf.against.messages import Answer, Command, Plan
    from pytest_gpuperf.statistics.sequential import Side

PATIENCE_S = 900.0
"""A worker that says nothing for so long hangs; a call that autotunes a large model may well take minutes."""
GOING_S = 20.0
"""Seconds a worker has for its last teardowns."""
LAST_LINES = 5
POLL_S = 0.1


class LostError(Exception):
    """A worker has died, or hangs.

    Args:
        side: Which.
        how: What happened to it, after the name of the worker.
        output: The last lines that it wrote.
    """

    def __init__(self, side: Side, how: str, output: Sequence[str] = ()) -> None:
        super().__init__(how)
        self.side = side
        self.how = how
        self.output = output


class Worker:
    """A child pytest in one of the two trees.

    Args:
        side: Which tree.
        launch: How it is started.
        plan: What it has to know, but for its end of the socket.
        log: File that what it prints is appended to.
        tick: Called while it is waited for.
        patience_s: How long it may say nothing, in seconds.
    """

    def __init__(
        self,
        side: Side,
        launch: Launch,
        plan: Plan,
        log: Path,
        tick: Callable[[], None],
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.side = side
        self._log = log
        self._tick = tick
        self._patience_s = patience_s
        ours, theirs = Pipe()
        self._end = SessionEnd(ours)
        path = launch.plan_file(side)
        path.write_bytes(msgspec.json.encode(msgspec.structs.replace(plan, channel=theirs.fileno())))
        with log.open("ab") as stream, theirs:
            self._begin = stream.tell()
            self._process = subprocess.Popen(  # noqa: S603
                launch.command(side),
                cwd=launch.cwd(side),
                env=launch.environment(side, path),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def ask(self, command: Command) -> Answer:
        """Give a command and wait for the answer.

        Raises:
            LostError: It has died, or does not answer.
        """
        with suppress(OSError):
            # Where it has gone, the want of an answer will say so.
            self._end.tell(command)
        return self.answer()

    def answer(self) -> Answer:
        """Wait for what it says next.

        Raises:
            LostError: It has died, or says nothing.
        """
        end = time.monotonic() + self._patience_s
        try:
            while not self._end.has_answer(POLL_S):
                # What a test has left running may hold the other end open.
                if self._process.poll() is not None and not self._end.has_answer(0):
                    raise EOFError
                if time.monotonic() > end:
                    end_group(self._process)
                    raise self._lost(f"has not answered for {self._patience_s:.0f} s")
                self._tick()
            return self._end.answer()
        except (OSError, EOFError):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=GOING_S)
            raise self._lost(f"ended with {_status(self._process.returncode)}") from None

    def let_go(self) -> None:
        """Say that nothing more will come: it ends by itself."""
        self._end.close()

    def stop(self, grace_s: float = GOING_S) -> None:
        """Make sure that it has ended.

        Args:
            grace_s: Seconds for it to end by itself.
        """
        self.let_go()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=grace_s)
            return
        end_group(self._process)

    def _lost(self, how: str) -> LostError:
        with self._log.open("rb") as stream:
            stream.seek(self._begin)
            lines = list(filter(str.strip, stream.read().decode(errors="replace").splitlines()))
        # Where Python crashed comes first, then who had called that; both may follow pytest on its line.
        crash = [at for at, line in enumerate(lines) if "Fatal Python error: " in line]
        lines = lines[crash[-1] :][:LAST_LINES] if crash else lines[-LAST_LINES:]
        return LostError(self.side, how, lines)


def _status(code: int | None) -> str:
    if code is None:
        return "its socket closed"
    return f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit status {code}"
