"""The session's end of its ranks: start them once, give them orders, replace them if one dies or hangs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ranks.messages import Doing, Done, Raised, RankStart
from pytest_gpuperf.processes.module_process import program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.features.ranks.messages import Answer, Order

GRACE_S = 2.0
"""Seconds that the other ranks have to answer once one has failed."""
STACK_S = 0.5
"""Seconds that a hung rank has to show where it is."""
LONGEST_LINE = 200
_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<name>.+)')
_PACKAGES = re.compile(r"[/\\](?:site-packages|pytest_gpuperf|lib[/\\]python[\d.]+)[/\\]")


class Team:
    """The ranks of a session: they start with the first order, and again after a failure.

    Args:
        world: Number of ranks.
        device: `cuda`, or `cpu` for tests without a GPU.
        silence_s: Seconds without a sign of life after which a rank hangs; 0 for any.
    """

    def __init__(self, world: int, device: str = "cuda", silence_s: float = 0.0) -> None:
        self.world = world
        self.device = device
        self._silence_s = silence_s
        self._ranks: list[_RankHandle] = []

    @property
    def alive(self) -> bool:
        """True if its processes run."""
        return bool(self._ranks)

    def ask(self, order: Order, progress: Callable[[str], None] = lambda _: None) -> list[Any]:
        """Let all ranks do something at the same time, and return their results.

        Args:
            order: The same for all.
            progress: Called with their present step.

        Raises:
            GpuperfError: A rank has died, hangs or raised an exception; none lives any more.
        """
        try:
            if not self._ranks:
                self._open(progress)
            self._tell(order)
            return [answer.value for answer in self._answers(progress)]
        except BaseException:
            # The state of the others is unknown: one may wait for the one that failed.
            self.end()
            raise

    def end(self) -> None:
        """End all ranks."""
        for rank in self._ranks:
            rank.end()
        if self._ranks:
            self._folder.cleanup()
        self._ranks = []

    def _open(self, progress: Callable[[str], None]) -> None:
        progress("starts its ranks")
        self._folder = tempfile.TemporaryDirectory(prefix="gpuperf-ranks-")
        for number in range(self.world):
            start = RankStart(number, self.world, self.device, sys.path, f"{self._folder.name}/meeting")
            self._ranks.append(_RankHandle(number))
            self._ranks[-1].tell(start)
        self._answers(progress)

    def _tell(self, order: Order) -> None:
        for rank in self._ranks:
            # An error means that it has died, which its missing answer shows.
            with suppress(OSError):
                rank.tell(order)

    def _answers(self, progress: Callable[[str], None]) -> list[Done]:
        """Wait for an answer of each rank."""
        answers: dict[int, Done] = {}
        failed: list[tuple[_RankHandle, Answer | None]] = []
        waiting = {rank.session: rank for rank in self._ranks}
        heard = time.monotonic()
        while waiting:
            left_s = GRACE_S if failed else max(0.0, heard + self._silence_s - time.monotonic())
            ready = wait(list(waiting), left_s if failed or self._silence_s else None)
            if not ready:
                break
            for session in ready:
                assert isinstance(session, Connection)
                rank = waiting[session]
                answer = rank.answer()
                if isinstance(answer, Doing):
                    if answer.what != rank.doing:
                        heard = time.monotonic()
                        rank.doing = answer.what
                        progress(answer.what)
                    continue
                heard = time.monotonic()
                del waiting[session]
                if isinstance(answer, Done):
                    answers[rank.number] = answer
                else:
                    failed.append((rank, answer))
        if failed or waiting:
            raise GpuperfError(self._failure(failed) if failed else self._hung(list(waiting.values())))
        return [answers[rank.number] for rank in self._ranks]

    def _failure(self, failed: Sequence[tuple[_RankHandle, Answer | None]]) -> str:
        """Describe the first failure; if a rank has died, others may have raised because of that."""
        rank, answer = next((one for one in failed if not isinstance(one[1], Raised)), failed[0])
        name = f"rank {rank.number} of {self.world}"
        if isinstance(answer, Raised):
            return f"{name} raised {answer.error}" + (f" ({answer.at})" if answer.at else "")
        return f"{name} {rank.how_it_died()}{rank.last_line()}"

    def _hung(self, ranks: Sequence[_RankHandle]) -> str:
        numbers = " and ".join(str(rank.number) for rank in ranks)
        stacks = "; ".join(f"rank {rank.number} {rank.where()}{rank.last_line()}" for rank in ranks)
        several = "s" if len(ranks) > 1 else ""
        gave = f"gave no sign of life for {self._silence_s:g} s (gpuperf_rank_timeout)"
        return f"rank{several} {numbers} of {self.world} {gave}: {stacks}"


class _RankHandle:
    """A rank, as its session sees it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.doing = "starts"
        self.session, theirs = Pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the rank lives
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                [*program("pytest_gpuperf.features.ranks.rank_process"), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                # Ctrl-C is for the session, which ends its ranks itself.
                start_new_session=True,
            )

    def tell(self, order: Order) -> None:
        self.session.send(order)

    def answer(self) -> Answer | None:
        """Return the next answer; None if the rank has died."""
        try:
            answer: Answer = self.session.recv()
        except (EOFError, OSError):
            return None
        return answer

    def how_it_died(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        status = self._process.returncode
        if status is None or status >= 0:
            return f"ended with status {status} while it {self.doing}"
        return f"was ended by {signal.Signals(-status).name} while it {self.doing}"

    def where(self) -> str:
        """Return the innermost line of the callable's own code that a hung rank is in."""
        before = len(self._lines())
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)
        time.sleep(STACK_S)
        frames = [found for line in self._lines()[before:] if (found := _FRAME.fullmatch(line))]
        own = next((frame for frame in frames if not _PACKAGES.search(frame["file"])), None)
        if own is None:
            return f"is where it {self.doing}"
        return f"is in {own['name']} ({os.path.basename(own['file'])}:{own['line']})"  # noqa: PTH119

    def last_line(self) -> str:
        """Return the last line of its output, except stacks."""
        stack = ("  File ", "Current thread ", "Stack (most recent call first)")
        lines = [line.strip() for line in self._lines() if line.strip() and not line.startswith(stack)]
        return f"; its last line: {lines[-1][:LONGEST_LINE]}" if lines else ""

    def _lines(self) -> list[str]:
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace").splitlines()

    def end(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.session.close()
        self._log.close()
