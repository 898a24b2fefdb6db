"""Classes of kernels by name and launch facts, and candidates for fusion."""

from __future__ import annotations

import pytest

from pytest_gpuperf.measure.trace.classes import classify
from pytest_gpuperf.measure.trace.fusion import Launch, fusion_candidates, split_again
from pytest_gpuperf.measure.trace.kernel_names import kind_of, tensor_cores_of
from pytest_gpuperf.records import FusionCandidate, TracedKernel


def row(
    name: str = "k", calls: int = 1, mean_us: float = 100.0, blocks_per_sm: float = 8.0,
    waves: float | None = 4.0, share_pct: float = 10.0,
) -> TracedKernel:  # fmt: skip
    return TracedKernel(
        name=name,
        calls=calls,
        total_us=calls * mean_us,
        mean_us=mean_us,
        share_pct=share_pct,
        blocks_per_sm=blocks_per_sm,
        waves=waves,
    )


NAMES: dict[tuple[str, bool | None], tuple[str, ...]] = {
    ("matrix", False): (
        "ampere_sgemm_128x64_nn",
        "volta_sgemm_32x128_tn",
        "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)",
        "void gemmSN_NN_kernel<float, 128, 2, 4, 8, 8, 4, false>(Params)",
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>(Params)",
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4",
        "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1",
    ),
    ("matrix", True): (
        "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x64x16_tensor16x8x8_execute",
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn",
        "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn",
        "volta_fp16_s884gemm_fp16_64x128_ldg8_f2f_tn",
        "volta_h884gemm_128x128_ldg8_nn",
        "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNN",
        "cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_bf16_bf16_128x128x64",
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x1_tn>(P)",
        "void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90>>(P)",
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Params)",
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(Params)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x128",
        "volta_s884cudnn_fp16_256x128_ldg8_relu_exp_medium_nhwc_tn_v1",
        "void cutlass::Kernel<cutlass::gemm::kernel::Gemm<cutlass::arch::OpClassTensorOp>>(P)",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel",
        "bmm_Bfloat16_E2m1E2m1_Fp32_t128x8x512u2_s6_et128x8_m128x8x64_cga1x1x1_16dp256b_TN_sm100f",
        "gemm_Bfloat16_E4m3E4m3_Fp32_t128x32x128_s7_et128x32_m128x32x32_cga1x1x1_TN_sm100a",
        "fmhaSm100aKernel_QkvBfloat16OBfloat16H128PagedKvCausalP32MultiCtasKvCgaVarSeqQ8Kv128Static",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB0_AFC1",
        "void cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8_ptp128c::GemmKernel>(P)",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x128x32_wt32x32x8_ws1x1_wr2x1_ta1x8x1x1",
        "void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 128u, 128u, 128u, 4u, 5u, 1u>(__nv_bfloat16*)",
    ),
    ("reduction", False): (
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float>(Params)",
        "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(Params)",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::Copy>>(X)",
        "void at::native::(anonymous namespace)::softmax_warp_forward<float, float, float, 8>(X)",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)",
        "triton_red_fused_mean_1",
        "triton_per_fused_native_layer_norm_2",
        "triton_per_fused__softmax__to_copy_amax_div_mul_sub_view_6",
        "triton_per_fused_add_cat_expand_gather_native_layer_norm_slice_unsqueeze_view_8",
        "triton_red_fused_convolution_backward_5",
        "triton_red_fused__scaled_dot_product_flash_attention_mm_3",
        "attention_softmax",
        "scaled_masked_softmax_warp_forward<float, float, float, 11>",
        "void pytorch_flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64, 128>>(Params)",
        "void pytorch_flash::flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64, 64>>(Params)",
        "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<16>>>>(Params)",
    ),
    ("elementwise", False): (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
        "triton_poi_fused_add_gelu_0",
        "triton_poi_fused_convolution_relu_3",
        "triton_poi_fused_mm_2",
        "triton_poi_fused_cat_gelu_view_25",
        "triton_for_fused_0",
        "SubTensorOpWithScalar1d",
        "SubTensorOpWithScalar4d.kd",
        "Op5dTensorGeneric",
        "conv_bias_add",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*)",
    ),
    ("data_movement", False): (
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::X)>()",
        "void at::native::vectorized_elementwise_kernel<4, at::native::float16_copy_kernel_cuda(at::X)>",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>()",
        "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)",
        "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<F>>(long)",
        "void dpsk::grouped_gemm::cuda::utils::transpose<512, 128, 4, 4>(unsigned char const*)",
        "void fbgemm_gpu::permute_2D_lengths_kernel<int>(long, long, int const*)",
    ),
    ("communication", False): (
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void c10d::symmetric_memory::multimem_all_reduce_kernel<c10::BFloat16, 16>(X)",
        "void (anonymous namespace)::one_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(X)",
        "void deep_ep::internode::dispatch<false, 8, false, 65536>(int4*)",
        "void deep_ep::internode::combine<false, 2, nv_bfloat16>(int4*)",
        "void deep_ep::internode::notify_dispatch<false, 2>(int const*)",
        "void deep_ep::intranode::cached_notify_combine<8>(void**)",
        "void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_oneshot_lamport<1, 8>(X)",
    ),
    ("", None): ("square_kernel",),
    ("matrix", None): ("matmul_persistent", "triton_tem_fused_addmm_gelu_4"),
}
CASES = [(name, kind, tensor) for (kind, tensor), names in NAMES.items() for name in names]


@pytest.mark.parametrize(("name", "kind", "tensor"), CASES, ids=[name[:60] for name, _, _ in CASES])
def test_names_of_the_libraries_are_known(name: str, kind: str, tensor: bool | None) -> None:
    assert (kind_of(name), tensor_cores_of(name)) == (kind, tensor)


def test_persistent_kernel_with_most_time_is_the_core() -> None:
    persistent = row("matmul_persistent", blocks_per_sm=1.0, waves=0.97, share_pct=80.0)
    assert classify([persistent]) == ["large_core"]


def test_small_kernel_needs_many_launches_to_be_frequent() -> None:
    rows = [row("gemm"), row("gemm_s", calls=3, mean_us=5.0, blocks_per_sm=0.5, waves=0.1)]
    assert classify(rows) == ["large_core", "other"]
    rows[1] = row("gemm_s", calls=30, mean_us=5.0, blocks_per_sm=0.5, waves=0.1)
    assert classify(rows) == ["large_core", "small_frequent"]


def test_small_kernels_of_many_names_are_frequent_together() -> None:
    rows = [row(f"nvjet_{n}", calls=2, mean_us=5.0 + n / 2, blocks_per_sm=0.7, waves=0.7) for n in range(3)]
    assert classify(rows) == ["small_frequent"] * 3
    assert "small_frequent" not in classify(rows[:1])


def test_short_kernels_below_one_wave_are_small() -> None:
    rows = [row("gemm", 8), row("gemm_of_a_head", 36, 9.0, blocks_per_sm=1.94, waves=0.48)]
    assert classify(rows) == ["large_core", "small_frequent"]
    # Without waves, the number of blocks that fit on the GPU is unknown.
    rows[1] = row("gemm_of_a_head", 36, 9.0, blocks_per_sm=1.94, waves=None)
    assert classify(rows) == ["large_core", "other"]


def test_long_kernel_of_few_blocks_is_not_frequent() -> None:
    rows = [row("gemm"), row("gemm_s", 36, 9.0, 0.5, 0.1), row("gemm_l", 1, 77.0, 0.73, 0.36)]
    assert classify(rows) == ["large_core", "small_frequent", "medium_auxiliary"]


def test_nearly_full_grid_is_not_small() -> None:
    rows = [row("nvjet_a", 12, 20.0, 1.0, 1.0), row("nvjet_b", 12, 12.0, 128 / 132, 128 / 132)]
    assert classify(rows) == ["medium_auxiliary", "medium_auxiliary"]


def test_persistent_products_next_to_communication_are_not_small() -> None:
    waves = 112 / 132
    rows = [row(f"fp8_gemm_{n}", 58, mean, waves, waves, 8.0) for n, mean in enumerate((400.0, 200.0, 90.0))]
    assert "small_frequent" not in classify(rows)


def test_one_rare_long_kernel_does_not_make_the_others_short() -> None:
    rows = [row("gemm", calls=100), row("gemm_once", mean_us=500.0)]
    assert classify(rows) == ["large_core", "large_core"]


def test_without_waves_blocks_for_each_sm_decide() -> None:
    rows = [row("a", waves=None, blocks_per_sm=6.0), row("b", waves=None, blocks_per_sm=2.0)]
    assert classify(rows) == ["large_core", "medium_auxiliary"]


def test_classes_do_not_depend_on_gpu_speed() -> None:
    rows = [
        row("a", 8),
        row("b", 90, 40.0, 0.2, 0.1),
        row("c", 2, 95.0, 3.0, 0.8),
        row("d", 1, 2.0, 3.0, 0.8),
    ]
    slower = [row(r.name, r.calls, r.mean_us * 7, r.blocks_per_sm, r.waves) for r in rows]
    assert classify(rows) == classify(slower) == ["large_core", "small_frequent", "medium_auxiliary", "other"]


def small(name: str, duration_us: float = 3.0) -> Launch:
    return Launch(name, duration_us, "elementwise")


def test_row_of_k_kernels_saves_k_minus_one_launches() -> None:
    [found] = fusion_candidates([[small("a"), small("b", 5.0), small("c")]], 2.0)
    assert (found.kernels, found.times, found.saved_launches) == (("a", "b", "c"), 1, 2)
    # Two gaps; at most also the time of a and c.
    assert (found.saved_us, found.at_most_us) == (4.0, 10.0)


def test_equal_rows_merge_and_sort_by_saving() -> None:
    core = Launch("gemm", 90.0, "large_core")
    stream = [small("a"), small("b"), core, small("c"), small("d"), core, small("a"), small("b")]
    found = fusion_candidates([stream], 2.0)
    assert [(one.kernels, one.times, one.saved_us) for one in found] == [
        (("a", "b"), 2, 4.0),
        (("c", "d"), 1, 2.0),
    ]


def test_copies_large_kernels_and_other_streams_end_a_row() -> None:
    copy = Launch("Memcpy DtoD", 2.0, None)
    core = Launch("gemm", 90.0, "large_core")
    assert fusion_candidates([[small("a"), copy, small("b"), core], [small("c")]], 2.0) == ()


def test_product_can_only_begin_a_row() -> None:
    product = Launch("gemm_of_a_head", 9.0, "small_frequent")
    [found] = fusion_candidates([[small("norm"), product, small("bias"), product, small("bias")]], 2.0)
    assert (found.kernels, found.times, found.saved_launches) == (("gemm_of_a_head", "bias"), 2, 2)
    assert (found.saved_us, found.at_most_us) == (4.0, 10.0)


def test_recorded_row_of_products_is_split() -> None:
    products = ("norm", *("gemm_of_a_head", "bias") * 3)
    long = FusionCandidate(kernels=products, times=2, saved_launches=12, saved_us=24.0, at_most_us=99.0)
    pair = FusionCandidate(kernels=("a", "b"), times=1, saved_launches=1, saved_us=2.0, at_most_us=5.0)
    rows = [row("gemm_of_a_head", 6, 9.0), row("bias", 1, 50.0), row("bias", 6, 3.0)]
    [found, same] = split_again([long, pair], rows)
    assert (found.kernels, found.times, found.saved_launches) == (("gemm_of_a_head", "bias"), 6, 6)
    assert (found.saved_us, found.at_most_us) == (12.0, 30.0)
    assert same == pair


def test_memory_decides_without_launch_gaps() -> None:
    core = Launch("gemm", 90.0, "large_core")
    found = fusion_candidates([[small("a"), small("b"), core, small("c", 50.0), small("d", 60.0)]], 0.0)
    assert [(one.kernels, one.saved_us, one.at_most_us) for one in found] == [
        (("c", "d"), 0.0, 50.0),
        (("a", "b"), 0.0, 3.0),
    ]
