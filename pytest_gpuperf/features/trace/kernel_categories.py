"""Categories of kernels by the kind of work: matrix products, attention, norms, communication.

A refinement of the kinds that `kernel_name_patterns` reads from the names, so that both always agree.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_gpuperf.features.trace.kernel_name_patterns import kind_of

if TYPE_CHECKING:
    from pytest_gpuperf.records.trace import KernelCategory

_ATTENTION = re.compile(r"(?i)fmha|flash|attention|attn(?!_?norm)|sdpa|(?<![a-z])m[hlq]a_|sage_(?:fwd|bwd)")
_AROUND_ATTENTION = re.compile(r"(?i)cache|indices|quant(?:ize)?_|^triton_(?:poi|red|per|for)_")
"""Kernels that prepare the data of attention, and Inductor's, which are named after all that they fuse."""
_CACHE = re.compile(r"(?i)reshape_and_cache|kv_?cache|concat_and_cache|kv_indices")
_CONVOLUTION = re.compile(
    r"(?i)fprop|dgrad|wgrad|conv\dd|conv_|convol|winograd|cudnn|miopen(?!\w*norm)|_conv(?![a-z])"
)
_NORM = re.compile(
    r"(?i)_norm|norm_|layer_?norm|rms_?norm|batch_?norm|group_?norm|instance_?norm|rowwisemoments|bn_[bf]w"
    r"|(?<![a-z])ln_(?:fwd|bwd)|gammabeta|welford"
)
_NORM_HELPERS = re.compile(r"(?i)lp_?norm|clip_?grad|grad_?norm|normal_|renorm|normalize_?index")


@lru_cache(maxsize=4096)
def category_of(name: str) -> KernelCategory:
    """Return the category that a kernel's name tells; `other` if it tells none."""
    kind = kind_of(name)
    if kind == "communication":
        return kind
    # Template arguments name what a product computes; other kernels may have its types as arguments.
    of_attention = name if kind in ("matrix", "reduction") else name.partition("<")[0].partition("(")[0]
    if _ATTENTION.search(of_attention) and not _AROUND_ATTENTION.search(name):
        return "attention"
    if kind == "matrix" and not _CACHE.search(name):
        return "convolution" if _CONVOLUTION.search(name) else "gemm"
    # A norm may be fused into, or be computed by, a kernel with another name.
    if _NORM.search(name) and not _NORM_HELPERS.search(name):
        return "norm"
    return "data_movement" if kind == "matrix" else kind or "other"
