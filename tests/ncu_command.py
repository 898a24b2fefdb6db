"""Calls of `gpuperf ncu` in the folder of captures."""

from __future__ import annotations

import csv
import io
import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from command_line import gpuperf

if TYPE_CHECKING:
    from click.testing import Result

CAPTURES = Path(__file__).parent / "data" / "captures"
FULL = "triton_square_gemm_set_full.ncu-rep.gz"
WIDE = "torch_mixed_raw_wide.csv.gz"
LONG = "torch_mixed_details_long.csv.gz"
WARNINGS = "filtered_long_with_warnings.csv.gz"
PASS = "profiling_pass/report.ncu-rep.gz"

needs_ncu_report = pytest.mark.skipif(find_spec("ncu_report") is None, reason="needs ncu_report")


def run(*args: str) -> Result:
    result = gpuperf("ncu", *args)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def shown(*args: str) -> list[str]:
    """Return the lines below those about the file."""
    lines = all_lines(*args)
    about = ("GPU of", "NVIDIA", "not shown", "  ")
    while not lines[0] or lines[0].startswith(about):
        del lines[0]
    return lines


def all_lines(*args: str) -> list[str]:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def as_json(*args: str) -> Any:
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def as_csv(*args: str) -> list[dict[str, str]]:
    result = run(*args, "--csv")
    assert result.exit_code == 0, result.output
    return list(csv.DictReader(io.StringIO(result.stdout)))
