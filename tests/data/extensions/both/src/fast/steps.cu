constexpr int steps = 4000;

__global__ void steps_kernel(float* o, const float* i) {
  int k = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i[k];
  for (int n = 0; n < steps; n++) v = v * 0.999f + 0.5f;
  o[k] = v;
}

extern "C" void launch(float* o, const float* i, int n, void* stream) {
  steps_kernel<<<n / 256, 256, 0, static_cast<cudaStream_t>(stream)>>>(o, i);
}
