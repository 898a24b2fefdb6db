"""A side process, as its parent sees it."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import suppress
from multiprocessing import Pipe
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.against.messages import ANSWERS
from pytest_gpuperf.processes.children import end_group

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_gpuperf.against.messages import Answer, Command, SidePlan
    from pytest_gpuperf.against.process_launcher import Launcher
    from pytest_gpuperf.against.sides import Sides
    from pytest_gpuperf.statistics.sequential import Side

PATIENCE_S = 900.0
"""A side process that is silent for so long hangs; a call that autotunes a large model can take minutes."""
GOING_S = 20.0
"""Seconds for its last teardowns."""
LAST_LINES = 5
CRASH = "Fatal Python error: "
POLL_S = 0.1


class LostError(Exception):
    """A side process has ended, or hangs.

    Args:
        side: The side of the process.
        how: What happened, a sentence that begins after its name.
        log: The file with its output.
        output: The last lines that it wrote.
    """

    def __init__(self, side: Side, how: str, log: Path, output: Sequence[str] = ()) -> None:
        super().__init__(how)
        self.side = side
        self.how = how
        self.log = log
        self.output = output


class SideProcess:
    """A child pytest in one of the two trees.

    Args:
        side: The side of its tree.
        launcher: Starts it.
        sides: Has its command.
        plan: Its plan, without its end of the socket.
        log: File for its output, which is appended.
        tick: Called during each wait.
    """

    def __init__(
        self,
        side: Side,
        launcher: Launcher,
        sides: Sides,
        plan: SidePlan,
        log: Path,
        tick: Callable[[], None],
    ) -> None:
        self.side = side
        self._log = log
        self._tick = tick
        self._end, theirs = Pipe()
        sides.plan_file(side).write_bytes(
            msgspec.json.encode(msgspec.structs.replace(plan, channel=theirs.fileno()))
        )
        with log.open("ab") as stream, theirs:
            self._begin = stream.tell()
            self._process = launcher.start(sides, side, theirs, stream)

    def ask(self, command: Command) -> Answer:
        """Send a command and wait for the answer.

        Raises:
            LostError: The process has ended, or does not answer.
        """
        with suppress(OSError):
            # If the process has ended, the missing answer shows that.
            self._end.send_bytes(msgspec.json.encode(command))
        return self.answer()

    def answer(self) -> Answer:
        """Wait for the next answer.

        Raises:
            LostError: The process has ended, or is silent.
        """
        end = time.monotonic() + PATIENCE_S
        try:
            while not self._end.poll(POLL_S):
                # A process that a test left running may hold the other end open.
                if self._process.poll() is not None and not self._end.poll(0):
                    raise EOFError
                if time.monotonic() > end:
                    end_group(self._process)
                    raise self._lost(f"has not answered for {PATIENCE_S:.0f} s")
                self._tick()
            return ANSWERS.decode(self._end.recv_bytes())
        except (OSError, EOFError):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=GOING_S)
            raise self._lost(f"ended with {_status(self._process.returncode)}") from None

    def let_go(self) -> None:
        """Tell the process that no command follows: it ends by itself."""
        self._end.close()

    def stop(self, grace_s: float = GOING_S) -> None:
        """Make sure that the process has ended.

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
            output = stream.read().decode(errors="replace").splitlines()
        lines = [line for line in output if line.strip() and not line.startswith("===")]
        # A crash of Python comes before its traceback; both may follow pytest's text on its line.
        crash = [at for at, line in enumerate(lines) if CRASH in line]
        lines = lines[crash[-1] :][:LAST_LINES] if crash else lines[-LAST_LINES:]
        return LostError(self.side, how, self._log, lines)


def _status(code: int | None) -> str:
    if code is None:
        return "its socket closed"
    return f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit status {code}"
