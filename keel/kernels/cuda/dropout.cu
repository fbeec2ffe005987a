#include "keel/kernels/cuda/dropout.h"

#include "keel/kernels/cuda/float_types.cuh"

namespace keel::cuda {
namespace {

constexpr int kRowThreads = 128;

template <class T>
__global__ void dropout_kernel(const T* x, const int64_t* sequences, const int64_t* positions, long long width,
                               DropoutNoise noise, T* y) {
  const long long row = blockIdx.x;
  for (long long begin = threadIdx.x * 4; begin < width; begin += kRowThreads * 4) {
    const DropoutFactors factors(noise, static_cast<unsigned long long>(sequences[row]),
                                 static_cast<unsigned int>(positions[row]), static_cast<unsigned int>(begin / 4));
    for (int i = 0; i < 4 && begin + i < width; ++i) {
      const long long place = row * width + begin + i;
      y[place] = from_float<T>(to_float(x[place]) * factors.of[i]);
    }
  }
}

}  // namespace

int drop_out(const void* x, FloatType type, const int64_t* sequences, const int64_t* positions, int64_t rows,
             int64_t width, const DropoutNoise& noise, void* y, void* stream) {
  if (rows == 0 || width == 0) return 0;
  for_type(type, [&](auto* of_type) {
    using T = std::remove_pointer_t<decltype(of_type)>;
    dropout_kernel<<<static_cast<unsigned int>(rows), kRowThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const T*>(x), sequences, positions, width, noise, static_cast<T*>(y));
  });
  return static_cast<int>(cudaGetLastError());
}

}  // namespace keel::cuda
