"""Computation, communication, copies and waiting of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute_force import differences
from present import present
from pytest_gpuperf.features.trace.kernel_categories import category_of
from pytest_gpuperf.features.trace.summary import summarise
from trace_builders import TraceBuilder

if TYPE_CHECKING:
    from pytest_gpuperf.records import Trace

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def table(trace: TraceBuilder) -> Trace:
    return summarise(trace.read())


def test_nodes_of_a_graph_do_not_wait_for_the_host() -> None:
    trace = TraceBuilder()
    number = trace.call("cudaGraphLaunch", 90.0)
    for start in (100.0, 110.0):
        trace.kernel("k", start, 5.0, correlation=number)
    idle = present(table(trace).idle)
    assert (idle.host_wait_us, idle.kernel_wait_us) == (0.0, 5.0)


@given(
    st.lists(
        st.tuples(
            st.integers(100, 1000),
            st.integers(0, 200),
            st.integers(0, 1),
            st.sampled_from([NCCL, "gemm", "copy", "memset"]),
            st.integers(0, 300) | st.none(),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_split_agrees_with_brute_force(
    tmp_path_factory: pytest.TempPathFactory, work: list[tuple[int, int, int, str, int | None]]
) -> None:
    trace = TraceBuilder()
    for number, (start, dur, device, name, before) in enumerate(work):
        if name in ("copy", "memset"):
            trace.copy(start, dur, 64, "memset" if name == "memset" else "DtoH (Device -> Pinned)")
        elif before is None:
            trace.kernel(name, start, dur, device=device, correlation=10**6 + number)
        else:
            trace.kernel(name, start, dur, device=device, launched=start - before)
    assert differences(trace.write(tmp_path_factory.getbasetemp() / "split.json")) == []


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", "gemm"),
        ("Cijk_Alik_Bljk_SB_MT64x64x16_MI16x16x1", "gemm"),
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Params)", "attention"),
        ("void cutlass::device_kernel<flash::FlashAttnFwd<Mainloop>>(Params)", "attention"),
        ("attn_fwd", "attention"),
        ("paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16>", "attention"),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)", "norm"),
        ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)", "norm"),
        ("triton_red_fused_add_native_layer_norm_3", "norm"),
        ("std::enable_if<(8>0), void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c)", "norm"),
        ("void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3>(int)", "convolution"),
        ("void at::native::(anonymous namespace)::softmax_warp_forward<float, 8>(float*)", "reduction"),
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(const T*)", "data_movement"),
        ("create_flashinfer_kv_indices_triton", "data_movement"),
        ("triton_poi_fused_addmm_gelu_view_15", "elementwise"),
        (NCCL, "communication"),
        ("my_kernel", "other"),
    ],
)  # fmt: skip
def test_name_tells_the_category(name: str, category: str) -> None:
    assert category_of(name) == category
