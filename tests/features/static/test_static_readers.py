"""Facts of a kernel from PTX, from the log of ptxas and from a cubin."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.static.kernel_record import Resources
from pytest_gpuperf.features.static.ptx_reader import isa_version, read_ptx
from pytest_gpuperf.features.static.ptxas_log import read_log
from pytest_gpuperf.features.static.resources import find_tool, read_cubin, spilled_bytes
from pytest_gpuperf.measure.cubin_hash import Cubin

DATA = Path(__file__).parents[2] / "data" / "static"
SPILLING = "_Z8spillingILi64EEvPf"


def unpacked(name: str) -> bytes:
    return gzip.decompress((DATA / f"{name}.gz").read_bytes())


def ptx(*lines: str, before: str = "", head: str = "") -> str:
    code = "\n".join(f"\t{line}" for line in lines)
    entry = f".visible .entry k(\n\t.param .u64 p\n)\n{head}\n{{\n{code}\n}}\n"
    return f".version 8.7\n.target sm_90a\n{before}\n{entry}"


def test_every_kernel_of_a_module_has_its_own_facts() -> None:
    text = unpacked("spill.ptx").decode()
    assert isa_version(text) == "9.0"
    spilling, staged = sorted(read_ptx(text), key=lambda kernel: kernel.name)
    assert (spilling.name, spilling.threads, spilling.widest_load_bits) == (SPILLING, 0, 32)
    assert (staged.name, staged.threads, staged.widest_load_bits) == ("staged", 256, 128)
    assert {kernel.barriers for kernel in (spilling, staged)} == {1}
    assert {kernel.tensor_instructions for kernel in (spilling, staged)} == {()}


TENSOR = [
    ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2};", ("mma.sync",)),
    ("@%p1 mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%r1};", ("mma.sync",)),
    ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1};", ("wmma",)),
    ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%r1};", ("wgmma",)),
    ("tcgen05.mma.cta_group::1.kind::f16 [ %r1 + 0 ], %rd1;", ("tcgen05",)),
    ("tcgen05.ld.sync.aligned.16x256b.x32.b32 {%r1}, [%r2];", ()),
    ("wgmma.fence.sync.aligned;", ()),
    ("// mma.sync is what this is not", ()),
]
COPIES = [
    ("cp.async.cg.shared.global [ %r35 + 0 ], [ %rd55 + 0 ], 0x10, %r37;", ("cp.async",)),
    ("cp.async.ca.shared.global [%r1], [%rd1], 4;", ("cp.async",)),
    (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r2];",
        ("cp.async.bulk",),
    ),
    (
        "@%p1 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1];",
        ("cp.async.bulk.tensor",),
    ),
    ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1], [%r1];", ("cp.async.bulk.tensor",)),
    ("cp.async.bulk.commit_group;", ()),
    ("cp.async.wait_group 0;", ()),
    ("ld.global.b32 \t%r1, [%rd1];", ()),
]
LOADS = [
    ("ld.global.b32 \t%r1, [%rd1];", 32),
    ("@%p3 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];", 128),
    ("ld.global.nc.L1::evict_last.v2.f64 {%fd1, %fd2}, [%rd1];", 128),
    ("ld.global.v8.f32 {%f1}, [%rd1];", 256),
    ("ld.v2.f16x2 {%r1, %r2}, [%rd1];", 64),
    ("ld.param.b64 \t%rd1, [p];", 0),
    ("ld.shared.v4.b32 {%r1}, [%r2];", 0),
    ("ld.local.v4.b32 {%r1}, [%r2];", 0),
    ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1}, [%r2];", 0),
    ("st.global.v4.b32 [%rd1], {%r1};", 0),
    ("cp.async.cg.shared.global [ %r35 + 0 ], [ %rd55 + 0 ], 0x10, %r37;", 128),
    ("cp.async.ca.shared.global [%r1], [%rd1], 4;", 32),
    ("cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1];", 128),
    ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1], [%r1];", 0),
]
BARRIERS = [
    ("bar.sync \t0;", 1),
    ("barrier.cta.sync.aligned 3, 128;", 4),
    ("bar.red.popc.u32 %r1, 2, %p1;", 3),
    ("barrier.sync %r7;", 16),
    ("bar.warp.sync -1;", 0),
    ("mbarrier.init.shared::cta.b64 [%r1], 1;", 0),
]


@pytest.mark.parametrize(
    ("field", "cases"),
    [
        ("tensor_instructions", TENSOR),
        ("copy_instructions", COPIES),
        ("widest_load_bits", LOADS),
        ("barriers", BARRIERS),
    ],
)
def test_instructions_are_known(field: str, cases: list[tuple[str, object]]) -> None:
    found = {line: getattr(read_ptx(ptx(line))[0], field) for line, _ in cases}
    assert found == dict(cases)


@pytest.mark.parametrize(
    ("head", "threads"),
    [(".reqntid 128", 128), (".maxntid 128, 1, 1", 128), (".reqntid 32, 4, 2\n.maxnreg 96", 256), ("", 0)],
)
def test_threads_of_a_block_come_from_the_code(head: str, threads: int) -> None:
    [kernel] = read_ptx(ptx(head=head))
    assert kernel.threads == threads


def test_functions_that_a_kernel_may_call_count_for_it() -> None:
    helper = ".func (.param .b32 r) helper(.param .b32 a)\n{\n\tld.global.v4.b32 {%r1}, [%rd1];\n}\n"
    [kernel] = read_ptx(ptx("call.uni (r), helper, (a);", before=helper))
    assert kernel.widest_load_bits == 128


@given(st.text())
def test_any_text_is_readable_as_ptx(text: str) -> None:
    read_ptx(text)
    read_ptx(f".entry k({text}")
    read_log(text)
    spilled_bytes(text)


def test_log_separates_kernels_and_called_functions() -> None:
    assert read_log((DATA / "spill.log").read_text()) == {
        SPILLING: (Resources(registers=32, stack_bytes=1376, spills=1376 + 1556), 1),
        "staged": (Resources(registers=16, stack_bytes=0, spills=0, shared_memory_bytes=4096), 1),
    }


def test_the_log_of_nvrtc_is_read_too() -> None:
    log = (
        "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
        "ptxas info    : Function properties for k\n"
        "ptxas         .     8 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 255 registers, 8 bytes cumulative stack size, 368 bytes cmem[0]\n"
    )
    assert read_log(log) == {"k": (Resources(registers=255, stack_bytes=8, spills=20), 0)}


def test_cubin_has_the_code_of_its_kernels_only() -> None:
    cubin = Cubin(unpacked("spill.cubin"))
    sizes = [len(cubin.instructions(name)) for name in (SPILLING, "staged", "missing")]
    assert sizes == [14208, 640, 0]
    assert [cubin.has(name) for name in ("staged", "stage", "missing")] == [True, False, False]


def test_code_hash_depends_on_one_kernel_of_several() -> None:
    cubin = unpacked("spill.cubin")
    code = Cubin(cubin).instructions("staged")
    end = cubin.index(code) + len(code)
    changed = Cubin(cubin[: end - 1] + bytes([cubin[end - 1] ^ 1]) + cubin[end:])
    assert changed.code_hash("staged") != Cubin(cubin).code_hash("staged")
    assert changed.code_hash(SPILLING) == Cubin(cubin).code_hash(SPILLING)


@pytest.mark.parametrize(
    ("instruction", "bytes"),
    [
        ("/*0010*/  LDL R4, [R1+0x8] ;", 4),
        ("@!P0 STL.64 [R1], R2 ;", 8),
        ("LDL.LU.128 R4, [R1] ;", 16),
        ("STL.S16 [R1+0x2], R9 ;", 2),
        ("LDL.U8 R4, [R1] ;", 1),
        ("LDG.E.128 R4, desc[UR4][R2.64] ;", 0),
        ("STS.128 [R1], R4 ;", 0),
    ],
)
def test_spills_are_local_memory_stores_and_loads(instruction: str, bytes: int) -> None:
    assert spilled_bytes(f"  {instruction}\n") == bytes


@pytest.fixture
def _tools() -> None:
    pytest.importorskip("triton")


@pytest.mark.usefixtures("_tools")
def test_tools_and_log_agree_on_a_cubin() -> None:
    found = read_cubin(unpacked("spill.cubin"), SPILLING)
    assert found == read_log((DATA / "spill.log").read_text())[SPILLING][0]


@pytest.mark.usefixtures("_tools")
def test_unreadable_cubin_is_an_error() -> None:
    with pytest.raises(GpuperfError, match=r"cuobjdump cannot read the machine code: .*; install a newer"):
        read_cubin(b"\x7fELF no cubin", "k")


def test_stand_in_for_triton_has_no_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    monkeypatch.setenv("PATH", "")
    assert find_tool("nvdisasm") == Path("nvdisasm")
