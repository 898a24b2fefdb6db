// What nvcc made of this lies beside it.
__device__ __noinline__ float helper(float x, const float* table) { return x * table[threadIdx.x]; }

extern "C" __global__ void __launch_bounds__(256) staged(const float4* x, float4* y, const float* table) {
  __shared__ float4 rows[256];
  rows[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float4 row = rows[255 - threadIdx.x];
  row.x = helper(row.x, table);
  y[threadIdx.x] = row;
}

template <int N> __global__ void spilling(float* x) {
  float values[N];
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = x[i * blockDim.x + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < N; ++i) x[i * blockDim.x + threadIdx.x] = values[N - 1 - i] * values[(i * 7) % N];
}
template __global__ void spilling<64>(float*);
