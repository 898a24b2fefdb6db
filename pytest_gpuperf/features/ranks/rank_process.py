"""A rank: a process with one GPU of the several that a call runs on. It does what its session orders."""

from __future__ import annotations

import faulthandler
import gc
import os
import queue
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from traceback import print_exception, walk_tb
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ranks.messages import Check, Doing, Done, Raised, RankStart

if TYPE_CHECKING:
    from pytest_gpuperf.features.ranks.messages import Answer, Order

_PACKAGE = Path(__file__).parents[2]


def main() -> None:
    """Serve the session whose end of a pipe the command line names."""
    serve(Connection(int(sys.argv[2])))


def serve(session: Connection[Any, Any]) -> None:
    """Do the orders of a session until it ends."""
    # Shows where a rank hangs.
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    orders: queue.Queue[Order] = queue.Queue()
    threading.Thread(target=_receive, args=(session, orders), daemon=True).start()
    rank = _RankProcess(session)
    while True:
        session.send(_answer(rank, orders.get()))


def _receive(session: Connection[Any, Any], orders: queue.Queue[Order]) -> None:
    """Pass orders on; if the session ends, end this process, even if it waits for another rank."""
    with suppress(EOFError, OSError):
        while True:
            orders.put(session.recv())
    os._exit(0)


def _answer(rank: _RankProcess, order: Order) -> Answer:
    try:
        return rank.do(order)
    except Exception as error:
        print_exception(error)
        sys.stderr.flush()
        # An error of this package says by itself what is wrong.
        kind = "" if isinstance(error, GpuperfError) else f"{type(error).__name__}: "
        return Raised(f"{kind}{error}".rstrip(": "), _place_of(error))
    finally:
        if "torch" in sys.modules:
            _free_memory()


def _free_memory() -> None:
    """Give the memory of the call back: the next test may need it in the session's own process."""
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        gc.collect()
        torch.cuda.empty_cache()


def _place_of(error: BaseException) -> str:
    """Return the last line of the callable's own code; empty if there is none."""
    lines = [(Path(frame.f_code.co_filename), line) for frame, line in walk_tb(error.__traceback__)]
    own = [
        f"{path.name}:{line}"
        for path, line in lines
        if _PACKAGE not in path.parents and "site-packages" not in path.parts
    ]
    return own[-1] if own else ""


class _RankProcess:
    def __init__(self, session: Connection[Any, Any]) -> None:
        self._session = session
        self._start: RankStart | None = None

    def do(self, order: Order) -> Answer:
        if isinstance(order, RankStart):
            self._start = order
            self._meet(order)
            return Done()
        from pytest_gpuperf.features.ranks.single_rank_call import RankedCall

        assert self._start is not None
        call = RankedCall.of(order.work, self._start.rank, self._start.world, self._doing)
        if isinstance(order, Check):
            from pytest_gpuperf.features.ranks.output_check import check

            return Done(check(call, order.reference))
        from pytest_gpuperf.features.ranks.timing import time_call

        return Done(time_call(call, order.budget_s))

    def _doing(self, what: str) -> None:
        self._session.send(Doing(what))

    def _meet(self, start: RankStart) -> None:
        sys.path[:] = start.search_path
        import torch
        from torch import distributed

        on_gpu = start.device == "cuda"
        if on_gpu:
            from pytest_gpuperf.measure.device.gpu_identity import gpu_info
            from pytest_gpuperf.measure.device.gpu_lock import GpuLock

            torch.cuda.set_device(start.rank)
            # Ends with this process. The session itself has locked one of the GPUs, or told that it cannot.
            lock = GpuLock(gpu_info().uuid)
            with suppress(GpuperfError):
                lock.acquire(lambda _: self._doing(f"waits for {lock.gpu}, on which another run measures"))
        else:
            torch.set_num_threads(1)
        distributed.init_process_group(
            "nccl" if on_gpu else "gloo",
            # A file, as a port would be open to other hosts.
            store=distributed.FileStore(start.meeting, start.world),
            rank=start.rank,
            world_size=start.world,
            device_id=torch.device("cuda", start.rank) if on_gpu else None,
        )
