"""Settings of the process on which results and times depend: a callable has to leave them as they are.

The reference of a check runs in the same process. A callable that turns TF32 on, leaves a mode of torch
active or puts a kernel of its own in the place of torch's changes the reference, too. A function that Python
calls at each call and return could do the work of a callable after its time has been taken.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.compat import torch_names

if TYPE_CHECKING:
    from collections.abc import Callable


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
