"""The workers of a scheduler of Dask that may take part in a job."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from pytest_gpuperf._version import __version__, requirement
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.fleet.messages import Job, WorkerState, decode, encode
from pytest_gpuperf.features.fleet.worker_functions import admit, run_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from distributed import Client, Future

CONNECT_S = 5.0
"""Seconds in which a scheduler has to answer."""
COMPARED = ("gpuperf", "torch", "triton", "driver")
"""Parts of the toolchain that all workers have to share."""
MODEL = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
"""Form of a model of GPU among Dask's resources; others are `MEM`, or the UUID of a card."""


def require_distributed() -> None:
    """Refuse to go on without Dask.

    Raises:
        GpuperfError: It is not installed.
    """
    if find_spec("distributed") is None:
        raise GpuperfError(
            "Dask's `distributed` is not installed",
            expected="the extra `fleet`",
            next_step=f"type `pip install '{requirement('fleet')}'`",
        )


def models_of(host: WorkerState) -> dict[str, int]:
    """Return the number of GPUs of a worker by model."""
    return {model: count for model, count in host.gpus.items() if MODEL.fullmatch(model)}


class Cluster:
    """A connection to a scheduler.

    Args:
        address: Address of the scheduler.
        job: The job.

    Raises:
        GpuperfError: The scheduler does not answer.
    """

    task: ClassVar[Callable[..., bytes]] = staticmethod(run_tests)
    """Runs on a worker."""

    def __init__(self, address: str, job: Job) -> None:
        self.address = address if "://" in address else f"tcp://{address}"
        self.hosts: dict[str, WorkerState] = {}
        """The admitted workers by address, also those that have gone."""
        self.seen: dict[str, WorkerState] = {}
        """All workers by address, also those of other models."""
        self.refused: dict[str, str] = {}
        """The reason why a worker cannot take part, by address."""
        self._job = job
        self._client = _connect(self.address)

    def close(self) -> None:
        """Disconnect."""
        with suppress(Exception):  # nobody needs an answer
            self._client.close(timeout=CONNECT_S)

    def look(self, models: Sequence[str] = ()) -> set[str]:
        """Admit new workers, and return the addresses of all that can take part now.

        Args:
            models: Models of GPU that are asked for; empty for all.

        Raises:
            GpuperfError: The scheduler has gone.
        """
        try:
            alive = set(self._client.nthreads())
            new = sorted(alive - set(self.seen))
            answers = (
                self._client.run(admit, encode(self._job), workers=new, on_error="return") if new else {}
            )
        except Exception as error:  # Dask raises many kinds
            raise GpuperfError(
                f"the scheduler at {self.address} has gone: {error or type(error).__name__}",
                next_step="start it, and run the tests again",
            ) from None
        for address, answer in answers.items():
            host = self.seen[address] = _read(answer)
            if not models or set(models) & set(models_of(host)) or not host.gpus:
                self._admit(address, host)
        return alive & set(self.hosts)

    def _admit(self, address: str, host: WorkerState) -> None:
        why = host.refused
        if not why and host.toolchain.gpuperf != __version__:
            why = (
                f"it has pytest-gpuperf {host.toolchain.gpuperf or 'none'}; expected {__version__}, as here; "
                f"there type `pip install pytest-gpuperf=={__version__}`"
            )
        first = next(iter(self.hosts.values()), host)
        for name in COMPARED:
            own, other = (getattr(one.toolchain, name) or "none" for one in (host, first))
            if not why and own != other:
                why = f"it has {name} {own}; expected {other}, as on {first.name}; install one version on all"
        if why:
            self.refused[address] = f"the worker {host.name or '?'} at {address} cannot take part: {why}"
        else:
            self.hosts[address] = host

    def submit(
        self,
        model: str,
        count: int,
        arguments: Sequence[str],
        worker: str,
        done: Callable[[Future], None],
    ) -> Future:
        """Start pytest on a worker.

        Args:
            model: Model of the GPUs.
            count: Number of GPUs.
            arguments: Names of tests or files.
            worker: Address of the worker.
            done: Called in another thread at the end.
        """
        key = f"gpuperf-{self._job.id}-{secrets.token_hex(8)}"
        future = self._client.submit(
            self.task,
            encode(self._job),
            model,
            count,
            tuple(arguments),
            key,
            key=key,
            workers=[worker],
            resources={model: count},
            pure=False,
        )
        future.add_done_callback(done)
        return future

    def cancel(self, futures: Sequence[Future]) -> None:
        """End tasks; their processes end within seconds."""
        with suppress(Exception):  # the scheduler may have gone
            self._client.cancel(list(futures), force=True)


def _connect(address: str) -> Client:
    """Connect to a scheduler.

    Raises:
        GpuperfError: Nothing that is a scheduler answers at the address.
    """
    require_distributed()
    from distributed import Client

    # Dask logs each lost worker with a traceback; this package tells it in a line.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        # A client that finds no scheduler would wait much longer, and log a traceback when it is dropped.
        asyncio.run(asyncio.wait_for(_greet(address), CONNECT_S))
        return Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError, asyncio.TimeoutError) as error:
        raise GpuperfError(
            f"no scheduler answers at {address}: {error or f'silent for {CONNECT_S:g} s'}",
            expected="the address that `dask scheduler` prints: tcp://HOST:8786, or tls:// with certificates",
            next_step="type `dask scheduler` on a host that all workers reach",
        ) from None


async def _greet(address: str) -> None:
    from distributed.comm import connect, parse_host_port
    from distributed.security import Security

    scheme, _, host = address.partition("://")
    if scheme in ("tcp", "tls"):
        parse_host_port(host)
    comm = await connect(address, timeout=CONNECT_S, **Security().get_connection_args("client"))
    await comm.close()


def _read(answer: object) -> WorkerState:
    """Return the state of a worker; an exception says why it cannot take part."""
    if isinstance(answer, bytes):
        with suppress(ValueError):
            return decode(answer, WorkerState)
        return WorkerState(refused="it has another version of pytest-gpuperf")
    if isinstance(answer, ModuleNotFoundError):
        return WorkerState(refused=f"{answer}; there type `pip install pytest-gpuperf=={__version__}`")
    return WorkerState(refused=f"{type(answer).__name__}: {answer}")
