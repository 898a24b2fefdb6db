"""`gpuperf compare --sass`: the machine code of two runs."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from compare_command import begin, compare, shown, store
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.identity.kept_code import KeptCode, find_code
from pytest_gpuperf.measure.static.cubin import Cubin, find_tool
from pytest_gpuperf.measure.static.sass import disassemble, opcodes
from pytest_gpuperf.records import LaunchedCode, LaunchedKernel
from run_builders import H200, measured, record

TOOL = find_tool("nvdisasm")
pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="needs the nvdisasm of Triton")

DATA = Path(__file__).parents[1] / "data" / "static" / "spill.cubin.gz"
CODE = Cubin(gzip.decompress(DATA.read_bytes())).instructions("staged")
WORD = 16
"""Bytes of an instruction."""
SHORTER = CODE[: 2 * WORD] + CODE[3 * WORD :]
OLD, NEW, SAME = "a" * 64, "b" * 64, "c" * 64
HOPPER = replace(H200, compute_capability="9.0")
FIRST, SECOND = "20261120-120000-aaaa", "20261121-120000-bbbb"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return begin(tmp_path, monkeypatch)


def keep(project: Path, run: str, **codes: tuple[str, bytes]) -> None:
    """Store a run of a call with these kernels, and the code of each."""
    kept = KeptCode(project / ".gpuperf" / "runs" / run / "code")
    for code, instructions in codes.values():
        kept.store(code, instructions)
    kernels = tuple(LaunchedKernel(name=name, code=code) for name, (code, _) in codes.items())
    test = record("t/test_k.py::test_k", main=replace(measured(), code=LaunchedCode(kernels=kernels)))
    store(project, test, id=run, gpu=HOPPER)


def test_difference_names_opcodes_and_instructions(project: Path) -> None:
    keep(project, FIRST, staged=(OLD, CODE), other=(SAME, CODE))
    keep(project, SECOND, staged=(NEW, SHORTER), other=(SAME, CODE))
    assert shown(FIRST, SECOND, "--sass")[3:] == snapshot(
        [
            "  metric            20261120-120000-aaaa  20261121-120000-bbbb",
            "--------------------------------------------------------------",
            "t/test_k.py::test_k: staged",
            "  all instructions                    30            29  -3.3 %",
            "  LDC                                  4             3 -25.0 %",
            "",
            "the code of 1 more kernel is the same",
            "t/test_k.py::test_k: staged:",
            "@@ -1,5 +1,4 @@",
            " LDC R1, c[0x0][0x28]",
            " S2R R13, SR_TID.X",
            "-LDC.64 R2, c[0x0][0x210]",
            " ULDC.64 UR6, c[0x0][0x208]",
            " IMAD.WIDE.U32 R2, R13, 0x10, R2",
        ]
    )


def test_opcodes_are_data(project: Path) -> None:
    keep(project, FIRST, staged=(OLD, CODE))
    keep(project, SECOND, staged=(NEW, SHORTER))
    found = json.loads(compare(FIRST, SECOND, "--sass", "--json").output)
    rows = {line["metric"]: [cell["value"] for cell in line["cells"]] for line in found["lines"]}
    assert rows == {"all instructions": [30, 29], "LDC": [4, 3]}


def test_code_that_was_pruned_is_named(project: Path) -> None:
    keep(project, FIRST, staged=(OLD, b""))
    keep(project, SECOND, staged=(NEW, CODE))
    assert f"its code was not kept in {FIRST}" in " ".join(shown(FIRST, SECOND, "--sass"))


@pytest.mark.parametrize("codes", [{}, {"staged": ("", b"")}])
def test_runs_without_hashes_are_an_error(project: Path, codes: dict[str, tuple[str, bytes]]) -> None:
    for run in (FIRST, SECOND):
        keep(project, run, **codes)
    result = compare(FIRST, SECOND, "--sass")
    assert result.exit_code == 2
    assert "no kernel of both has a hash of its code" in result.output


def test_one_run_cannot_be_compared(project: Path) -> None:
    keep(project, FIRST, staged=(OLD, CODE))
    assert "gpuperf compare OLD NEW --sass" in compare(FIRST, "--sass").output


@pytest.mark.parametrize("more", [("--metrics", "time_us"), ("--shares",)])
def test_options_of_values_are_refused(project: Path, more: tuple[str, ...]) -> None:
    result = compare(FIRST, SECOND, "--sass", *more)
    assert result.exit_code == 2
    assert "takes neither --metrics nor --shares" in result.output


def test_labels_hide_moved_addresses() -> None:
    before, after = (disassemble(code, "9.0", TOOL) for code in (CODE, SHORTER))
    assert [line for line in after if line not in before] == []


def test_code_of_another_architecture_is_an_error() -> None:
    with pytest.raises(GpuperfError, match="nvdisasm cannot read the machine code"):
        disassemble(CODE, "10.0", TOOL)


def test_tool_that_prints_no_instruction_is_an_error(tmp_path: Path) -> None:
    tool = tmp_path / "nvdisasm"
    tool.write_text("#!/bin/sh\necho nothing\n")
    tool.chmod(0o755)
    with pytest.raises(GpuperfError, match="finds no instruction"):
        disassemble(CODE, "9.0", tool)


def test_stand_in_for_triton_has_no_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    monkeypatch.setenv("PATH", "")
    assert find_tool("nvdisasm") == Path("nvdisasm")


def test_predicates_and_modifiers_are_no_opcodes() -> None:
    lines = ["@!P0 LDG.E R11, desc[UR4][R10.64]", "@UP1 UIADD3 UR4, UR4, 1, URZ", "L1:", "LDG.E.128 R4, [R2]"]
    assert opcodes(lines) == {"LDG": 2, "UIADD3": 1}


@pytest.mark.parametrize("code", ["../" * 3 + "etc/passwd", "*", ""])
def test_hash_from_a_file_is_no_path(tmp_path: Path, code: str) -> None:
    assert find_code(tmp_path, code) is None
