"""What a callable in this process could change: clocks, functions of libraries, settings.

A callable can replace `time.perf_counter` or the methods of `torch.cuda.Event`. The functions here call what
lies below them, as it was at the import of this module, before any test runs. The methods of torch's classes
in C cannot be replaced at all.

`Originals.patched` names a replaced function: the callable, or what a library does with it, expects other
times than this plugin measures. This does not defend against code that changes the memory of the process.

`ProcessState` names a changed setting. The reference of a check runs in the same process: a callable that
turns TF32 on, leaves a mode of torch active or puts a kernel of its own in the place of torch's changes the
reference, too. A function that Python calls at each call and return could do the work of a callable after its
time has been taken.
"""

from __future__ import annotations

import builtins
import math
import os
import statistics
import sys
import threading
import time
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from pytest_gpuperf.compat import torch_names
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device import driver
from pytest_gpuperf.records.call import wait_for_launches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_EVENT = torch_names.event_type()
_STREAM = torch_names.stream_type()
_GRAPH = torch_names.graph_type()
_TENSOR = torch_names.tensor_type()
_SYNCHRONIZE = torch_names.synchronisation()
_SLEEP = torch_names.sleep()
_CURRENT_STREAM = torch_names.current_stream()
_CURRENT_DEVICE = torch_names.current_device()
_HAS_CONTEXT = torch_names.context_test()
_WITHOUT_FUNCTIONS = torch_names.without_functions()
_WITHOUT_MODES = torch_names.without_modes()
_ON_DEVICE = torch.cuda.device
LAUNCHES_BLOCK = os.environ.get("CUDA_LAUNCH_BLOCKING", "0") != "0"
"""True if the host waits for the end of each launch; a change after CUDA has begun has no effect."""

_WATCHED: tuple[tuple[Any, str, str], ...] = (
    (builtins, "builtins", "any float getattr id int isinstance len max min range round sorted sum zip"),
    (math, "math", " ".join(vars(math))),
    (statistics, "statistics", " ".join(vars(statistics))),
    (time, "time", "perf_counter"),
    (torch, "torch", "empty isclose equal"),
    (
        torch.cuda,
        "torch.cuda",
        # Not `set_stream`: vLLM wraps it at its import.
        "synchronize Event Stream CUDAGraph graph stream current_stream _sleep",
    ),
    (torch.cuda.Event, "torch.cuda.Event", "record elapsed_time query synchronize wait"),
    (torch.cuda.Stream, "torch.cuda.Stream", "query synchronize wait_stream wait_event"),
    (torch.cuda.CUDAGraph, "torch.cuda.CUDAGraph", "replay capture_begin capture_end"),
    (torch.cuda.graph, "torch.cuda.graph", "__enter__ __exit__"),
    (torch.Tensor, "torch.Tensor", "zero_ copy_ fill_ clone data_ptr all any __eq__ __le__"),
)
# Code that was compiled elsewhere may name files by another path.
_TORCH = (
    str(Path(torch.__file__).parent),
    str(Path(torch.nn.Module.__init__.__code__.co_filename).parents[2]),
)
_LIBRARY: dict[str, Any] = {
    "torch": torch,
    "torch.nn.functional": torch.nn.functional,
    "torch.Tensor": torch.Tensor,
    "torch.linalg": torch.linalg,
    "torch.testing": torch.testing,
}
_CLOCK_PACKAGES = ("freezegun", "time_machine")
"""Packages that stop Python's clock for a test; the clock of this module goes on."""


_Owner: TypeAlias = "tuple[Any, str, dict[str, object]]"
"""A module or class, its name in messages, and members with their values."""


def now(_clock: Any = time.perf_counter) -> float:
    """Return the seconds of a clock that only goes forward.

    The clock is a default argument: freezegun replaces it in the variables of all modules.
    """
    return float(_clock())


def synchronize() -> None:
    """Wait for all work of this process, on each device that it uses."""
    _SYNCHRONIZE()
    if (devices := torch.cuda.device_count()) > 1:
        current = _CURRENT_DEVICE()
        for device in range(devices):
            # On a device that is not used, this would make a context, which takes memory.
            if device != current and _HAS_CONTEXT(device):
                with _ON_DEVICE(device):
                    _SYNCHRONIZE()


def finish(value: object = None) -> None:
    """Wait until the GPU has finished all work of this process, with that for the result of a call."""
    wait_for_launches(value)
    if torch.cuda.is_available():
        synchronize()


def event() -> object:
    """Return a CUDA event with timing, for the other functions of this module."""
    return _EVENT(enable_timing=True)


def record(one: object, stream: Any = None) -> None:
    """Record an event on a stream, by default the current one."""
    _EVENT.record(one, current_stream() if stream is None else stream)


def has_passed(one: object) -> bool:
    """Return True if the work before a recorded event is done."""
    return bool(_EVENT.query(one))


def elapsed_us(start: object, end: object) -> float:
    """Return the microseconds between two events that have passed."""
    return 1e3 * float(_EVENT.elapsed_time(start, end))


def current_stream() -> Any:
    """Return torch's current stream of the current device."""
    return _CURRENT_STREAM()


def is_idle() -> bool:
    """Return True if the work on torch's current stream is done."""
    return bool(_STREAM.query(current_stream()))


def replay(graph: torch.cuda.CUDAGraph) -> None:
    """Launch a graph on the current stream."""
    _GRAPH.replay(graph)


def sleep_on_gpu(cycles: int) -> None:
    """Queue a kernel that spins for this many cycles."""
    if _SLEEP is not None:
        _SLEEP(cycles)
    else:
        driver.launch(driver.SPIN, cycles, current_stream().cuda_stream)


def zero(tensor: torch.Tensor) -> torch.Tensor:
    """Fill a tensor with zeros."""
    # A mode that a callable has left active could drop the call.
    with _WITHOUT_FUNCTIONS(), _WITHOUT_MODES():
        zeros: torch.Tensor = _TENSOR.zero_(tensor)
        return zeros


def total(tensor: torch.Tensor) -> torch.Tensor:
    """Read all of a tensor, and return its sum."""
    with _WITHOUT_FUNCTIONS(), _WITHOUT_MODES():
        summed: torch.Tensor = _TENSOR.sum(tensor)
        return summed


class Originals:
    """Functions as they were, to find those that were replaced since.

    Args:
        package: Name of a package; the variables of its imported modules are compared, too, and the members
            of its classes, the elements of constants, and the code and the defaults of its functions.
    """

    def __init__(self, package: str = "") -> None:
        own: list[_Owner] = [(module, module.__name__, _variables(module)) for module in _modules(package)]
        classes = {
            one: f"{one.__module__}.{one.__qualname__}"
            for _, _, values in own
            for one in values.values()
            if isinstance(one, type) and _belongs(one, package)
        }
        own += [(one, shown, _variables(one)) for one, shown in classes.items()]
        functions = (_function_in(value) for _, _, values in own for value in values.values())
        self._parts = {one: _parts(one) for one in functions if one is not None and _belongs(one, package)}
        self._owners = own
        self._contents = [
            (f"{shown}.{name}", value, copy(value))
            for _, shown, values in own
            for name, value in values.items()
            if value and name.isupper() and isinstance(value, (dict, list, set))
        ]
        """Constants with their elements; those that are empty at first are none."""
        for owner, shown, names in _WATCHED:
            found = ((name, vars(owner).get(name)) for name in names.split())
            # One of torch that was replaced before the import differs from any.
            is_torch = shown.startswith("torch")
            self._owners.append(
                (owner, shown, {name: None if is_torch and _is_foreign(one) else one for name, one in found})
            )

    def patched(self) -> str:
        """Name the first replaced function, with the file that replaced it; empty if there is none."""
        for owner, shown, values in self._owners:
            now = vars(owner)
            for name, value in values.items():
                if (found := now.get(name)) is not value and not _stops_clock(owner, found):
                    return f"{shown}.{name}{_origin(found)}"
        for shown, value, former in self._contents:
            if value != former:
                return shown
        for function, parts in self._parts.items():
            if list(map(id, _parts(function))) != list(map(id, parts)):
                return f"{function.__module__}.{function.__qualname__}"
        return ""


class ReplacedError(GpuperfError):
    """A function of torch was replaced."""


@contextmanager
def library_unchanged() -> Iterator[None]:
    """Refuse a block in which functions of torch are replaced by functions from elsewhere.

    A reference is most often made of them. torch replaces some of its functions itself.

    Raises:
        ReplacedError: A function was replaced.
    """
    before = {shown: dict(vars(owner)) for shown, owner in _LIBRARY.items()}
    yield
    for shown, owner in _LIBRARY.items():
        for name, value in vars(owner).items():
            was_there = name in before[shown] or hasattr(getattr(owner, "__base__", None), name)
            if was_there and value is not before[shown].get(name) and not _is_of_torch(value):
                raise ReplacedError(
                    f"the callable has replaced {shown}.{name}{_origin(value)}",
                    expected="a callable that leaves torch as it is",
                )


def _is_foreign(value: object) -> bool:
    """Return True for a Python function that is not in torch's files: it was replaced before the import."""
    if not isinstance(value, FunctionType):
        return False
    return not value.__code__.co_filename.startswith(_TORCH)


def _is_of_torch(value: object) -> bool:
    """Return True for a value that torch could have replaced one of its own functions by."""
    if isinstance(value, FunctionType) or not callable(value):
        return not _is_foreign(value)
    return str(getattr(value, "__module__", None)).partition(".")[0] in ("torch", "None")


def _stops_clock(owner: object, value: object) -> bool:
    """Return True for a variable of a module that a library for tests replaces."""
    package = str(getattr(value, "__module__", "")).partition(".")[0]
    return isinstance(owner, ModuleType) and package in _CLOCK_PACKAGES


def _variables(owner: Any) -> dict[str, object]:
    """Return the members that nothing but a patch assigns again, unlike a module that is imported."""
    return {
        name: value
        for name, value in vars(owner).items()
        if not (name.startswith("__") or isinstance(value, ModuleType))
        or (isinstance(owner, type) and callable(value))
    }


def _function_in(value: object) -> FunctionType | None:
    """Return the function of a method or property; None for other values."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    return value if isinstance(value, FunctionType) else None


def _parts(function: FunctionType) -> list[object]:
    """Return the code and the defaults, which can be replaced while the function stays."""
    return [function.__code__, function.__defaults__, *(function.__kwdefaults__ or {}).values()]


def _origin(value: object) -> str:
    if isinstance(value, FunctionType):
        return f" (replaced by {value.__qualname__} in {Path(value.__code__.co_filename).name})"
    return ""


def _modules(package: str) -> list[ModuleType]:
    if not package:
        return []
    return [
        module for name, module in list(sys.modules.items()) if name.partition(".")[0] == package and module
    ]


def _belongs(value: object, package: str) -> bool:
    """Return True for functions and classes of the package."""
    of = getattr(value, "__module__", None)
    return isinstance(value, (FunctionType, type)) and str(of).partition(".")[0] == package


def _monitoring_tools() -> list[str | None]:
    monitoring: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
    return [monitoring.get_tool(number) for number in range(6)] if monitoring is not None else []


_MATMUL = "torch.backends.cuda.matmul"
_ATTRIBUTES: dict[str, tuple[Any, str]] = {
    _MATMUL: (
        torch.backends.cuda.matmul,
        "allow_tf32 fp32_precision allow_fp16_accumulation "
        "allow_fp16_reduced_precision_reduction allow_bf16_reduced_precision_reduction",
    ),
    "torch.backends.cudnn": (torch.backends.cudnn, "allow_tf32 fp32_precision"),
}
"""`allow_tf32` sets `fp32_precision`, too, so that comes after it."""
_WITHOUT_TF32 = {"none", "ieee"}
"""Values of a matrix product's `fp32_precision` by which it does not use TF32. The first is torch's at the
start, the second is there after `allow_tf32` was set and put back."""
_FUNCTIONS: dict[str, tuple[Callable[[], object], Callable[[Any], object] | None]] = {
    "torch.get_default_dtype()": (torch.get_default_dtype, torch.set_default_dtype),
    "torch.is_autocast_enabled('cuda')": (
        lambda: torch.is_autocast_enabled("cuda"),
        lambda value: torch.set_autocast_enabled("cuda", value),
    ),
    "torch.get_autocast_dtype('cuda')": (
        lambda: torch.get_autocast_dtype("cuda"),
        lambda value: torch.set_autocast_dtype("cuda", value),
    ),
    "the number of active torch function modes": (torch_names.function_modes(), None),
    "the number of active torch dispatch modes": (torch_names.dispatch_modes(), None),
    "sys.getprofile()": (sys.getprofile, sys.setprofile),
    "sys.gettrace()": (sys.gettrace, sys.settrace),
    "the tools of sys.monitoring": (_monitoring_tools, None),
    "threading.getprofile()": (lambda: vars(threading).get("_profile_hook"), threading.setprofile),
}
"""What can be asked, and how it is set again; None if the callable has to do that."""


class ProcessState:
    """The settings as they are now."""

    def __init__(self) -> None:
        self._attributes = {
            (shown, name): _attribute(owner, name)
            for shown, (owner, names) in _ATTRIBUTES.items()
            for name in names.split()
        }
        self._values = {shown: ask() for shown, (ask, _) in _FUNCTIONS.items()}
        self._kernels = torch_names.kernels_of_libraries()

    def change(self) -> str:
        """Describe the first setting that has changed since, and set all back; empty if none has."""
        found: list[str] = []
        for (shown, name), value in self._attributes.items():
            owner = _ATTRIBUTES[shown][0]
            new = _attribute(owner, name)
            alike = shown == _MATMUL and {new, value} == _WITHOUT_TF32
            if new != value and not alike:
                found.append(f"{shown}.{name} from {value} to {new}")
                if value is not None:
                    setattr(owner, name, value)
        for shown, value in self._values.items():
            ask, put_back = _FUNCTIONS[shown]
            if (now := ask()) is not value and now != value:
                found.append(f"{shown} from {value} to {now}")
                if put_back is not None:
                    put_back(value)
        # Other libraries' operators are theirs, kernels for meta tensors compute nothing, and torch adds its
        # own for vmap at the first use.
        added = (one for one in torch_names.kernels_of_libraries() - self._kernels if one.startswith("aten/"))
        computing = (one for one in added if not one.endswith(("/Meta", "/FuncTorchBatched")))
        found += [f"the kernel of {one}" for one in sorted(computing)]
        return next(iter(found), "")


def _attribute(owner: Any, name: str) -> object:
    try:
        return getattr(owner, name, None)
    except RuntimeError:  # set by its former and by its present name
        return None
