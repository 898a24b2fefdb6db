"""Tell the form of a problem file by the names that it defines, without running it."""

from __future__ import annotations

import symtable
from importlib.util import decode_source
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.files import show_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_gpuperf.features.trial.record import Form


class Names(NamedTuple):
    """The names that a form needs."""

    problem: tuple[str, ...]
    solution: str


FORMS: Mapping[Form, Names] = {
    "kernelbench": Names(("Model", "get_inputs", "get_init_inputs"), "ModelNew"),
    "gpu-mode": Names(("generate_input", "ref_kernel"), "custom_kernel"),
}


def form_of(problem: Path) -> Form:
    """Return the form of a problem file.

    Raises:
        GpuperfError: The file is not Python, or has neither form.
    """
    names = _names_of(problem)
    for form, needed in FORMS.items():
        if names.issuperset(needed.problem):
            return form
    nearest = max(FORMS.values(), key=lambda needed: len(names.intersection(needed.problem)))
    missing = [name for name in nearest.problem if name not in names]
    forms = " or ".join(", ".join(needed.problem) for needed in FORMS.values())
    raise GpuperfError(
        f"{show_path(problem)} does not define {' and '.join(missing)}",
        expected=f"a problem in the form of KernelBench or GPU MODE: {forms}",
        next_step="write gpuperf try SOLUTION.py --reference PROBLEM.py",
    )


def _names_of(path: Path) -> frozenset[str]:
    """Return the names that a module defines or imports at its top level.

    Raises:
        GpuperfError: The file is not Python.
    """
    shown = show_path(path)
    try:
        source = decode_source(path.read_bytes())
        symbols = symtable.symtable(source, shown, "exec").get_symbols()
    except SyntaxError as error:
        line = f":{error.lineno}" if error.lineno else ""
        raise GpuperfError(
            f"{shown}{line} is not Python: {error.msg}", next_step=f"type python -m py_compile {shown}"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise GpuperfError(f"{shown} is not Python: {error or type(error).__name__}") from None
    return frozenset(symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported())
