"""A process that has imported the slow packages, and forks a side process at each order.

It does not import this package: pytest must be the first to do that. All side processes of a comparison are
forked from one server, so both sides begin alike. A fork cannot use CUDA if the server has initialised it, so
the server checks that after its imports.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import socket
import sys
import threading
import warnings
import weakref
from pathlib import Path

LIBRARIES = ("pytest", "numpy", "scipy.special")
"""Packages that come first; threads of OpenBLAS survive a fork: it ends and starts them itself."""
SLOW = ("torch", "triton")
"""Packages that take seconds to import, and neither initialise CUDA nor start threads, unlike Inductor."""
COMPILERS = Path(__file__).parents[1] / "compat" / "compiler_names.py"
"""The file that knows what compilers do at a first launch."""
CUDA_ERROR_NOT_INITIALIZED = 3
"""Its name in `cuda.h`, with which a test compares it; `driver.py` is not imported, as is said above."""
LONGEST = 65536
"""Maximum length of a message, in bytes."""


def main() -> None:
    """Serve the socket whose descriptor is the argument."""
    gc.disable()  # collections during imports take a tenth of the time
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        orders.set_inheritable(False)
        ordered = serve(orders)
    if ordered is not None:
        become(*ordered)


def load(names: list[str]) -> str:
    """Import modules; return why this process cannot fork side processes, or an empty text."""
    started = ""
    try:
        for name in names:
            if name in LIBRARIES:
                importlib.import_module(name)
        threads = native_threads()
        for name in names:
            importlib.import_module(name)
            if native_threads() > threads:
                started = started or f"the import of {name}"
        runpy.run_path(str(COMPILERS))["ready_compilers"]()
    except Exception as error:
        return f"an import failed with {type(error).__name__}: {error}"
    sys.modules.pop("__mp_main__", None)  # a name for this program, by `multiprocessing`; a fork runs another
    if threading.active_count() > 1 or native_threads() > threads:
        return f"{started or 'an import'} started a thread"
    if cuda_initialised():
        return "an import initialised CUDA"
    # Else each fork would go through all objects of the packages, and so copy their memory.
    gc.freeze()
    return ""


def of_one_side(checkout: str) -> str:
    """Return why the imports do not suit both sides: a module that each side has in its own tree."""
    real_path = functools.cache(os.path.realpath)  # most modules share theirs with others
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None) or os.sep  # a relative one, as of `torch.ops`, is no file
        folder, file = os.path.split(path)
        place = real_path(path) if Path(path).is_symlink() else os.path.join(real_path(folder), file)  # noqa: PTH118
        below = place[len(checkout) :] if folder and place.startswith(checkout + os.sep) else ""
        # This program is in the checkout of this package; a fork runs another one. Environments are shared.
        if below and name != "__main__" and "/site-packages/" not in below and f"{os.sep}." not in below:
            return f"{name} is a module of the checkout"
    return ""


def native_threads() -> int:
    """Return the number of threads of this process, those of libraries included."""
    return len(list(Path("/proc/self/task").iterdir()))


def cuda_initialised() -> bool:
    """Return True if any library has initialised the CUDA driver in this process."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return False
    return bool(driver.cuCtxGetCurrent(ctypes.byref(ctypes.c_void_p())) != CUDA_ERROR_NOT_INITIALIZED)


def serve(orders: socket.socket) -> tuple[str, int, int] | None:
    """Import modules, fork a process at each order, and tell the state of those that were forked.

    Args:
        orders: The end of the socket.

    Returns:
        In a fork the arguments of `become`; in the server None, after the other end of the socket was closed.
    """
    while True:
        message, descriptors, _, _ = socket.recv_fds(orders, LONGEST, 2)
        if not message:
            return None
        asked = json.loads(message)
        answer: object
        if isinstance(asked, list):
            checkout, *names = asked
            answer = load(names) or of_one_side(checkout)
        elif isinstance(asked, int):
            found, status = os.waitpid(asked, os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if found else None
        else:
            with warnings.catch_warnings():
                # Python warns of the threads of OpenBLAS.
                warnings.simplefilter("ignore", DeprecationWarning)
                answer = os.fork()
            if answer == 0:
                channel, log = descriptors
                return asked, channel, log
            for descriptor in descriptors:
                os.close(descriptor)
        # The run may have been interrupted before it took an answer.
        orders.send(json.dumps([asked, answer]).encode())


def become(order: str, channel: int, log: int) -> None:
    """Run the program of an order in this fork, as Python runs a new process.

    Args:
        order: File with its command, working directory, environment and plan.
        channel: Descriptor of its end of the socket to the run.
        log: Descriptor of its output.
    """
    os.setsid()
    for finalizer in list(vars(weakref.finalize)["_registry"]):
        finalizer.atexit = False  # those of the server's imports are the server's: torch has thousands
    gc.enable()
    asked = json.loads(Path(order).read_bytes())
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, number)
    os.close(nothing)
    os.close(log)
    plan = Path(asked["plan"])
    plan.write_text(json.dumps({**json.loads(plan.read_bytes()), "channel": channel}))
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    program, *sys.argv[1:] = asked["command"]
    sys.argv[0] = program
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
