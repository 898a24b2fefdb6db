"""Theoretical occupancy, compared with NVIDIA's calculator."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_gpuperf
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.occupancy import MULTIPROCESSORS, Occupancy, occupancy


def test_occupancy_agrees_with_the_example_of_the_documentation() -> None:
    assert pytest_gpuperf.occupancy((9, 0), block_size=256, registers_per_thread=32) == Occupancy(
        theoretical_occupancy_pct=100.0,
        blocks_per_sm=8,
        # 233,472 bytes of an SM over the 1,024 that the driver uses in each block.
        limits={"warps": 8, "blocks": 32, "registers": 8, "shared_mem": 228, "barriers": 32},
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"block_size": 1056}, r"a block of 1,056 threads fits on no SM .* 9\.0; expected at most 1,024"),
        ({"block_size": 0}, "a block of 0 threads; expected 1 or more"),
        ({"registers_per_thread": 256}, "256 registers a thread .* expected at most 255"),
        # 17 warps of 128 registers count as 20 warps.
        ({"block_size": 544, "registers_per_thread": 128}, "81,920 registers .* expected at most 65,536"),
        ({"shared_memory_per_block": 232_449}, "232,449 bytes of shared memory .* expected at most 232,448"),
        ({"barriers": 17}, "17 barriers .* expected at most 16"),
        ({"shared_memory_per_sm": 200_000}, "shared_memory_per_sm=200000; expected one of 0, 8192, .*233472"),
    ],
)
def test_impossible_launch_names_the_broken_limit(asked: dict[str, int], said: str) -> None:
    with pytest.raises(GpuperfError, match=said):
        occupancy((9, 0), **{"block_size": 256, "registers_per_thread": 32, **asked})


@pytest.mark.parametrize("capability", [(6, 1), (9, 9), "9.0", (9,)])
def test_an_unknown_capability_names_the_known_ones(capability: tuple[int, int]) -> None:
    with pytest.raises(GpuperfError, match=r"occupancy table does not have .*; expected .*7\.0.*12\.1"):
        occupancy(capability, block_size=256, registers_per_thread=32)


def test_too_small_configuration_uses_the_next_size() -> None:
    limits = occupancy(
        (9, 0),
        block_size=128,
        registers_per_thread=32,
        shared_memory_per_block=40_000,
        shared_memory_per_sm=16 * 1024,
    ).limits
    assert limits["shared_mem"] == 64 * 1024 // (40_960 + 128)


def test_occupancy_imports_nothing_heavy() -> None:
    script = (
        "import sys, pytest_gpuperf; pytest_gpuperf.occupancy((9, 0), block_size=1, registers_per_thread=1);"
        "print([name for name in ('torch', 'numpy', 'pandas', 'msgspec', 'triton') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


CALCULATOR = r"""
#include <limits.h>
#include <stdio.h>
#include "cuda_occupancy.h"
int main(void) {
  int major, minor, warps, sm_bytes, reserved, threads, registers, shared, barriers;
  while (scanf("%d %d %d %d %d %d %d %d %d", &major, &minor, &warps, &sm_bytes, &reserved, &threads,
               &registers, &shared, &barriers) == 9) {
    struct cudaOccDeviceProp gpu = {0};
    gpu.computeMajor = major;
    gpu.computeMinor = minor;
    gpu.maxThreadsPerBlock = 1024;
    gpu.maxThreadsPerMultiprocessor = 32 * warps;
    gpu.regsPerBlock = gpu.regsPerMultiprocessor = 65536;
    gpu.warpSize = 32;
    gpu.sharedMemPerBlock = 49152;
    gpu.sharedMemPerMultiprocessor = sm_bytes;
    gpu.numSms = 1;
    gpu.sharedMemPerBlockOptin = sm_bytes - reserved;
    gpu.reservedSharedMemPerBlock = reserved;
    struct cudaOccFuncAttributes kernel = {0};
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = registers;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = sm_bytes - reserved;
    kernel.numBlockBarriers = barriers;
    struct cudaOccDeviceState state = {0};
    state.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT;
    struct cudaOccResult result = {0};
    cudaOccError error =
        cudaOccMaxActiveBlocksPerMultiprocessor(&result, &gpu, &kernel, &state, threads, shared);
    printf("%d %d %d %d %d %d %d\n", error, result.activeBlocksPerMultiprocessor,
           result.blockLimitWarps, result.blockLimitBlocks, result.blockLimitRegs,
           result.blockLimitSharedMem, result.blockLimitBarriers);
  }
  return 0;
}
"""
UNLIMITED = 2**31 - 1


@pytest.fixture(scope="module")
def calculator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile NVIDIA's calculator from the header that Triton includes."""
    triton = pytest.importorskip("triton")
    header = Path(triton.__file__).parent / "backends" / "nvidia" / "include" / "cuda_occupancy.h"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not header.exists():
        pytest.skip("no C compiler, or a Triton without cuda_occupancy.h")
    folder = tmp_path_factory.mktemp("calculator")
    (folder / "calculator.c").write_text(CALCULATOR)
    program = folder / "calculator"
    subprocess.run(
        [compiler, "-w", f"-I{header.parent}", str(folder / "calculator.c"), "-o", str(program)], check=True
    )
    return program


@pytest.mark.parametrize("capability", MULTIPROCESSORS)
def test_occupancy_agrees_with_cuda_header(capability: tuple[int, int], calculator: Path) -> None:
    sm = MULTIPROCESSORS[capability]
    draw = random.Random(0)
    launches = [
        (
            draw.choice([draw.randint(1, 1024), 32 * draw.randint(1, 32)]),
            draw.randint(0, 255),
            draw.choice([0, draw.randint(0, 4096), draw.randint(0, sm.block_shared_memory_bytes + 512)]),
            draw.randint(0, 16),
        )
        for _ in range(2000)
    ]
    gpu = (*capability, sm.warps, 1024 * sm.shared_memory_kib[-1], sm.reserved_bytes)
    asked = "".join(f"{' '.join(map(str, (*gpu, *launch)))}\n" for launch in launches)
    answers = subprocess.run([calculator], input=asked, capture_output=True, text=True, check=True).stdout
    for launch, answer in zip(launches, answers.splitlines(), strict=True):
        error, blocks, *limits = map(int, answer.split())
        if error == 2:
            pytest.skip("a header that does not know the capability yet")
        threads, registers, shared, barriers = launch
        try:
            result = occupancy(
                capability,
                block_size=threads,
                registers_per_thread=registers,
                shared_memory_per_block=shared,
                barriers=barriers,
            )
        except GpuperfError:
            assert blocks == 0, launch
            continue
        # An unused resource allows the largest number of blocks of an SM; ncu never shows more barriers.
        expected = [sm.blocks if limit == UNLIMITED else limit for limit in limits]
        expected[-1] = min(expected[-1], sm.blocks)
        assert (result.blocks_per_sm, list(result.limits.values())) == (blocks, expected), launch
