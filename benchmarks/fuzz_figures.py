"""Count the cases in which `gpuperf.fuzz` finds planted bugs, and how many it tries per second.

python -m benchmarks.fuzz_figures    # on a GPU; writes benchmarks/results/fuzz_figures.json
"""

from __future__ import annotations

import datetime
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import results_file
from benchmarks.markdown import provenance
from pytest_gpuperf.records import Environment, Fuzzing, Record
from pytest_gpuperf.records.call import LAYOUTS, FuzzCall, Reference
from pytest_gpuperf.records.files import write_files

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = 1
FILE = Path(__file__).parent / "results" / "fuzz_figures.json"
SECONDS = 5.0
ALIGNED = tuple(name for name in LAYOUTS if name != "misaligned")
"""Layouts for torch's operators on tensor cores: on a misaligned address one of them broke the GPU."""
CHECKS = 20


class Results(Record, frozen=True, kw_only=True):
    """Results of one run."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment
    bugs: dict[str, Fuzzing]
    """By the name of the function."""
    honest: dict[str, Fuzzing]
    check_ms: float
    """Time of `check` for a small tensor."""
    red_zones_ms: float
    """Part of it that the red zones take."""


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)


def table(results: Results) -> str:
    """Format a row for each planted bug, without spaces: tables count as words of the documentation."""
    rows = [f"|`{name}`|{bug.found_after}|{bug.case}|" for name, bug in results.bugs.items()]
    return "".join(f"{line}\n" for line in ("|planted bug|case|smallest|", "|---|---:|---|", *rows))


def summary(results: Results) -> str:
    """Return sentences about the speed and the machine."""
    honest = results.honest.values()
    rate = sum(one.cases for one in honest) / sum(one.seconds for one in honest)
    cases, accused = sum(one.cases for one in honest), sum(not one.passed for one in honest)
    return (
        f"torch's {', '.join(results.honest)}: {cases:,} cases, {rate:.0f} per second, {accused} accused. "
        f"Red zones take {results.red_zones_ms:.1f} of the {results.check_ms:.1f} ms of a small `check`.\n"
        f"{provenance(results.environment, results.date)}.\n"
    )


def _fuzz(fn: Callable[..., Any], expected: Callable[..., Any], shapes: str, **more: Any) -> Fuzzing:
    import torch

    from pytest_gpuperf.features.fuzz.fuzz import fuzz

    given = {
        "sizes": {},
        "dtypes": (torch.float32, torch.bfloat16),
        "layouts": LAYOUTS,
        "make": None,
        "refuses": (),
        "seconds": SECONDS,
        "nodeid": f"benchmarks/fuzz_figures.py::{fn.__name__}",
        "label": f"{time.time_ns()}",  # a failure that is kept would come first
        **more,
    }
    reference = Reference(expected, rtol=1e-2, atol=1e-2, mutates=given.pop("mutates", ()))
    call = FuzzCall(fn=fn, reference=reference, shapes=shapes, **given)
    return fuzz(call, torch.device("cuda", torch.cuda.current_device()), lambda _: None)


def measure() -> Results:
    """Search for each bug, and in honest functions, on the GPU of this machine."""
    import torch
    from torch.nn import functional

    from benchmarks.planted_bugs import PLANTED
    from pytest_gpuperf.measure import correctness
    from pytest_gpuperf.measure.correctness.call_tensors import Arguments
    from pytest_gpuperf.measure.correctness.guarded_call import call_between_red_zones
    from pytest_gpuperf.measure.device.environment import environment
    from pytest_gpuperf.measure.device.gpu_identity import gpu_info

    bugs = {
        bug.fn.__name__: _fuzz(bug.fn, bug.expected, bug.shapes, dtypes=(bug.dtype,), **bug.options)
        for bug in PLANTED
    }
    attention = functional.scaled_dot_product_attention
    softmax = partial(torch.softmax, dim=-1)
    vars(softmax)["__name__"] = "softmax"
    heads = "(b,h,s,64),(b,h,t,64),(b,h,t,64)"
    some = {name: range(1, 300) for name in "bhst"}
    honest = {
        "softmax": _fuzz(softmax, softmax, "(m,n)"),
        "matmul": _fuzz(
            torch.matmul, torch.matmul, "(m,k),(k,n)", sizes={"k": range(1, 2049)}, layouts=ALIGNED
        ),
        "attention": _fuzz(attention, attention, heads, sizes=some, layouts=ALIGNED),
    }
    x = torch.randn(1000, device="cuda")
    arguments = Arguments((x,), {}, ())

    def checked() -> object:
        return correctness.check(torch.square, (x,), {}, expected=torch.square)

    return Results(
        schema=SCHEMA,
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        environment=environment(gpu_info(), Path.cwd(), ""),
        bugs=bugs,
        honest=honest,
        check_ms=_mean_ms(checked),
        red_zones_ms=_mean_ms(lambda: call_between_red_zones(torch.square, (x,), {}, arguments)),
    )


def _mean_ms(fn: Callable[[], object]) -> float:
    fn()
    begin = time.perf_counter()
    for _ in range(CHECKS):
        fn()
    return (time.perf_counter() - begin) / CHECKS * 1e3


if __name__ == "__main__":
    found = measure()
    write_files({FILE: results_file.encode(found)})
    print(table(found) + summary(found))
