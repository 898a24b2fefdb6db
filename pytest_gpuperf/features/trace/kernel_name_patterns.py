"""Derive a kernel's kind of work, and its use of tensor cores, from its name.

The patterns match the names that cuBLAS, cuDNN, CUTLASS, FlashAttention, TensorRT-LLM, DeepEP, ATen, CUB,
Inductor, MIOpen and Tensile give their kernels. For other names the result is unknown: authors name kernels
freely.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from pytest_gpuperf.measure.counters.counter_source import RETURNS

NameKind: TypeAlias = Literal["matrix", "data_movement", "reduction", "elementwise", "communication", ""]

_ARGUMENTS = re.compile(r"[<(]")

_KINDS: tuple[tuple[NameKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))  # type: ignore[misc]
    for kind, pattern in (
        ("communication", r"(?i)nccl|rccl|nvshmem"),
        # Inductor's prefix tells the kind of loop; all fused operations follow it.
        ("reduction", r"^triton_(?:red|per|spl)_"),
        ("elementwise", r"^triton_(?:poi|for)_"),
        ("matrix", r"^triton_tem_"),
        # torch's symmetric memory, vLLM and SGLang, TensorRT-LLM, DeepEP.
        (
            "communication",
            r"(?i)(?:^|::|_|one|two)(?<!block_)(?<!warp_)(?<!thread_)all_?reduce|multimem_|all_?gather"
            r"|reduce_?scatter|all_?to_?all|cross_device_|mscclpp|(?:^|::)int(?:er|ra)node(?:_ll)?::",
        ),
        # Helpers of a matrix product, a convolution or attention, which do not multiply themselves.
        ("reduction", r"splitK_?[rR]educe|reduce_wgrad|[tT]op_?[kK]"),
        ("reduction", r"(?i)attention_?softmax|masked_?softmax"),
        ("elementwise", r"(?i)rotary|(?<![a-z])rope(?![a-z])|conv_bias|bias_?add"),
        ("data_movement", r"(?i)nchw_?to|nhwc_?to|im2col|col2im|::transpose\w*$"),
        (
            "matrix",
            r"(?i)(?<!fb)gemm|gemv|nvjet|xmma|wgmma|cutlass|fprop|dgrad|wgrad|conv\dd|conv_|convol|winograd|fmha|flash"
            r"|[sh]\d*cudnn|attention|sdpa|matmul|bmm|_mm_|_mma_|dot_kernel|^cijk_",
        ),
        (
            "data_movement",
            r"(?i)copy|catarray|concat|transpose|permute|gather|scatter|index|embedding|fill|sort|roll_|flip"
            r"|unfold|_pad",
        ),
        (
            "reduction",
            r"(?i)reduce|softmax|_norm|layernorm|rmsnorm|rowwisemoments|arg(?:max|min)|scan"
            r"|cumsum|histogram|bn_[bf]w|pool",
        ),
        (
            "elementwise",
            # MIOpen's and cuDNN's operations on whole tensors end the list.
            r"(?i)elementwise|pointwise|activation|dropout|gelu|silu|relu|multi_tensor|SubTensorOpWith"
            r"|Op(?:\dd)?Tensor|op_tensor",
        ),
    )
)
_AROUND_FLASH = re.compile(r"(?i)flash\w*(?:combine|dot_do_o|convert_?dq|preprocess|postprocess)")
"""FlashAttention's kernels before and after its products, which add up and convert; in version 3 the names
are template arguments."""
_COPIES = re.compile(r"copy_kernel|CopyFunctor|FillFunctor")
"""Functors of ATen's elementwise kernels that only copy or fill."""

_TENSOR = re.compile(
    r"(?<![a-z])(?:hmma|imma|dmma|qmma|omma)|gmma|tcgen05|umma|(?<!sub)tensorop(?!with)|tensor\d+x\d+x\d+|nvjet"
    r"|wmma|warpgroupsize\d"
    # cuBLAS writes the shape of the instruction: s16816gemm, h884, i8816.
    r"|[shid](?:884|1684|1688|8816|16816|16832|161616)(?!\d)"
    # CuTe's atoms: SM80_16x8x16_F32BF16BF16F32_TN.
    r"|sm\d+_\d+x\d+x\d+_|blockscaled|deep_gemm::|fp8\w*::gemmkernel|fp8_gemm"
    # TensorRT-LLM's generated products and attention; matrix instructions on AMD's GPUs.
    r"|(?<![a-z])(?:bmm|gemm)_\w*_t\d+x\d+x\d+\w*_sm\d|fmhasm\d+|fmha_v2_|^cijk_\w*_mi\d+x\d+x\d+|igemm_\w+_gtcx|xdl|mfma"
    r"|flash_(?:fwd|bwd)|flash::|flash_attn"
    r"|fmha_cutlass[fb]_(?:bf16|f16)_.*sm[789]\d|fmha_cutlass[fb]_f32_.*sm80",
    re.IGNORECASE,
)
_NO_TENSOR = re.compile(
    r"simt|ffma|gemmsn|gemmk1|gemv|dot_kernel|scudnn|convolve_sgemm|fmha_cutlass[fb]_f32"
    r"|(?:maxwell|pascal|volta|turing|ampere)_[hs]gemm|(?<![a-z\d])sgemm",
    re.IGNORECASE,
)
_NEVER_TENSOR = re.compile(r"^(?:at::native|at_cuda_detail|cub|thrust)::|^triton_(?:poi|for|red|per|spl)_")


@lru_cache(maxsize=4096)
def kind_of(name: str) -> NameKind:
    """Return the kind of work that a kernel's name tells; empty if it tells none.

    Args:
        name: Demangled name, with or without template arguments.
    """
    if _AROUND_FLASH.search(name):
        return "reduction"
    head, arguments = _split(name)
    for kind, pattern in _KINDS:
        if pattern.search(head):
            return "data_movement" if kind == "elementwise" and _COPIES.search(arguments) else kind
    return ""


@lru_cache(maxsize=4096)
def tensor_cores_of(name: str) -> bool | None:
    """Return True if a kernel of this name multiplies on tensor cores; None if the name does not tell."""
    if _AROUND_FLASH.search(name):
        return False
    if _TENSOR.search(name):
        return True
    head, _ = _split(name)
    if _NO_TENSOR.search(name) or _NEVER_TENSOR.search(head):
        return False
    return None if kind_of(name) in ("matrix", "") else False


def _split(name: str) -> tuple[str, str]:
    """Split a name into its own part and its template arguments and parameters."""
    plain = RETURNS.sub("", name.replace("(anonymous namespace)::", ""))
    found = _ARGUMENTS.search(plain)
    return (plain[: found.start()], plain[found.start() :]) if found else (plain, "")
