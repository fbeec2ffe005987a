#include "keel/kernels/cuda/float_types.cuh"
#include "keel/kernels/cuda/launch.cuh"
#include "keel/kernels/cuda/layers.h"

namespace keel::cuda {
namespace {

constexpr int kRowThreads = 128, kWarps = kRowThreads / 32, kFlatThreads = 256;

constexpr int kKept = 2;  // loads that a thread keeps in registers; the rest of wider rows is read twice

/// Each thread loads N elements at a time; N divides the width.
template <class T, int N>
__global__ void __launch_bounds__(kRowThreads)
    rms_norm_kernel(const T* x, const T* added, const T* weight, int width, float eps, T* sum, T* y) {
  using Vec = Vector<T, N>;
  __shared__ float sums[kWarps];
  allow_next_kernel();
  wait_for_previous_kernel();
  const long long begin = static_cast<long long>(blockIdx.x) * width;
  const auto load = [](const T* from) { return *reinterpret_cast<const Vec*>(from); };
  const auto column = [](int pass) { return (pass * kRowThreads + static_cast<int>(threadIdx.x)) * N; };
  Vec kept[kKept], factors[kKept];
  float squares = 0;
  const auto read = [&](int i) {
    Vec values = load(x + begin + i);
    if (added) {
      const Vec addend = load(added + begin + i);
      for (int j = 0; j < N; ++j) values.of[j] = from_float<T>(to_float(values.of[j]) + to_float(addend.of[j]));
      *reinterpret_cast<Vec*>(sum + begin + i) = values;
    }
    for (int j = 0; j < N; ++j) squares += to_float(values.of[j]) * to_float(values.of[j]);
    return values;
  };
#pragma unroll
  for (int pass = 0; pass < kKept; ++pass)
    if (column(pass) < width) factors[pass] = load(weight + column(pass)), kept[pass] = read(column(pass));
  for (int i = column(kKept); i < width; i += kRowThreads * N) read(i);
  for (int half = 16; half > 0; half /= 2) squares += __shfl_xor_sync(~0u, squares, half);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = squares;
  __syncthreads();
  float total = 0;
  for (int warp = 0; warp < kWarps; ++warp) total += sums[warp];
  const float scale = 1.0f / sqrtf(total / static_cast<float>(width) + eps);
  const auto write = [&](int i, Vec values, const Vec& factor) {
    for (int j = 0; j < N; ++j)
      values.of[j] = from_float<T>(rounded<T>(to_float(values.of[j]) * scale) * to_float(factor.of[j]));
    *reinterpret_cast<Vec*>(y + begin + i) = values;
  };
#pragma unroll
  for (int pass = 0; pass < kKept; ++pass)
    if (column(pass) < width) write(column(pass), kept[pass], factors[pass]);
  const T* const source = added ? sum : x;
  for (int i = column(kKept); i < width; i += kRowThreads * N) write(i, load(source + begin + i), load(weight + i));
}

template <class T, int N>
__global__ void swiglu_kernel(const T* gate, long long gate_stride, const T* up, long long up_stride, int width, T* y) {
  using Vec = Vector<T, N>;
  allow_next_kernel();
  wait_for_previous_kernel();
  const long long row = blockIdx.x;
  const int i = (static_cast<int>(blockIdx.y) * kFlatThreads + static_cast<int>(threadIdx.x)) * N;
  if (i >= width) return;
  Vec g = *reinterpret_cast<const Vec*>(gate + row * gate_stride + i);
  const Vec u = *reinterpret_cast<const Vec*>(up + row * up_stride + i);
  for (int j = 0; j < N; ++j) {
    const float x = to_float(g.of[j]);
    g.of[j] = from_float<T>(rounded<T>(x / (1.0f + expf(-x))) * to_float(u.of[j]));
  }
  *reinterpret_cast<Vec*>(y + row * width + i) = g;
}

__global__ void rotary_angles_kernel(const int64_t* positions, const float* frequencies, long long rows, int half,
                                     float factor, float* cos, float* sin) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const long long index = static_cast<long long>(blockIdx.x) * kFlatThreads + threadIdx.x;
  if (index >= rows * half) return;
  const float angle = static_cast<float>(positions[index / half]) * frequencies[index % half];
  cos[index] = cosf(angle) * factor;
  sin[index] = sinf(angle) * factor;
}

/// Each thread rotates N elements of a head's first half with those of the second half; N divides half.
template <class T, int N>
__global__ void rotate_kernel(const T* x, long long stride, const float* cos, const float* sin, float direction,
                              int heads, int half, T* y) {
  using Vec = Vector<T, N>;
  using RotaryAngles = Vector<float, N>;
  allow_next_kernel();
  wait_for_previous_kernel();
  const long long row = blockIdx.x, to = row * heads * half * 2;
  for (int i = static_cast<int>(threadIdx.x) * N; i < heads * half; i += static_cast<int>(blockDim.x) * N) {
    const int head = i / half, d = i % half, first = head * half * 2 + d, second = first + half;
    const RotaryAngles c = *reinterpret_cast<const RotaryAngles*>(cos + row * half + d),
                       s = *reinterpret_cast<const RotaryAngles*>(sin + row * half + d);
    Vec a = *reinterpret_cast<const Vec*>(x + row * stride + first),
        b = *reinterpret_cast<const Vec*>(x + row * stride + second);
    for (int j = 0; j < N; ++j) {
      const float one = to_float(a.of[j]), other = to_float(b.of[j]), sine = direction * s.of[j];
      a.of[j] = from_float<T>(one * c.of[j] - other * sine);
      b.of[j] = from_float<T>(other * c.of[j] + one * sine);
    }
    *reinterpret_cast<Vec*>(y + to + first) = a;
    *reinterpret_cast<Vec*>(y + to + second) = b;
  }
}

template <class T>
const T* in(const void* x) {
  return static_cast<const T*>(x);
}

unsigned int blocks_for(int64_t threads) {
  return static_cast<unsigned int>((threads + kFlatThreads - 1) / kFlatThreads);
}

template <class T>
__global__ void dropout_kernel(const T* x, const int64_t* sequences, const int64_t* positions, long long width,
                               DropoutNoise noise, T* y) {
  const long long row = blockIdx.x;
  for (long long begin = threadIdx.x * 4; begin < width; begin += kRowThreads * 4) {
    const DropoutFactors factors(noise, static_cast<unsigned long long>(sequences[row]),
                                 static_cast<unsigned int>(positions[row]), static_cast<unsigned int>(begin / 4));
    for (int i = 0; i < 4 && begin + i < width; ++i) {
      const long long index = row * width + begin + i;
      y[index] = from_float<T>(to_float(x[index]) * factors.of[i]);
    }
  }
}

}  // namespace

int rms_norm_rows(const void* x, const void* added, const void* weight, FloatType type, int64_t rows, int64_t width,
                  float eps, void* sum, void* y, void* stream) {
  if (rows == 0) return 0;
  for_type(type, [&]<class T>(T*) {
    const bool vectorized =
        can_vectorize(x, width, width) && can_vectorize(added, width, width) && can_vectorize(weight, width, width);
    const auto kernel = vectorized ? rms_norm_kernel<T, kVectorSize> : rms_norm_kernel<T, 1>;
    launch(kernel, dim3(static_cast<unsigned int>(rows)), kRowThreads, 0, stream, in<T>(x), in<T>(added), in<T>(weight),
           static_cast<int>(width), eps, static_cast<T*>(sum), static_cast<T*>(y));
  });
  return static_cast<int>(cudaGetLastError());
}

int swiglu_rows(const void* gate, int64_t gate_stride, const void* up, int64_t up_stride, FloatType type, int64_t rows,
                int64_t width, void* y, void* stream) {
  if (rows * width == 0) return 0;
  for_type(type, [&]<class T>(T*) {
    const bool vectorized = can_vectorize(gate, gate_stride, width) && can_vectorize(up, up_stride, width);
    const auto kernel = vectorized ? swiglu_kernel<T, kVectorSize> : swiglu_kernel<T, 1>;
    launch(kernel, dim3(static_cast<unsigned int>(rows), blocks_for(width / (vectorized ? kVectorSize : 1))),
           kFlatThreads, 0, stream, in<T>(gate), gate_stride, in<T>(up), up_stride, static_cast<int>(width),
           static_cast<T*>(y));
  });
  return static_cast<int>(cudaGetLastError());
}

int rotary_angles(const int64_t* positions, const float* frequencies, int64_t rows, int64_t half, float factor,
                  float* cos, float* sin, void* stream) {
  if (rows * half == 0) return 0;
  launch(rotary_angles_kernel, dim3(blocks_for(rows * half)), kFlatThreads, 0, stream, positions, frequencies, rows,
         static_cast<int>(half), factor, cos, sin);
  return static_cast<int>(cudaGetLastError());
}

int rotate_heads(const void* x, int64_t stride, const float* cos, const float* sin, float direction, FloatType type,
                 int64_t rows, int64_t heads, int64_t width, void* y, void* stream) {
  if (rows == 0) return 0;
  for_type(type, [&]<class T>(T*) {
    const bool vectorized = can_vectorize(x, stride, width / 2) && can_vectorize(y, width, width);
    const auto kernel = vectorized ? rotate_kernel<T, kVectorSize> : rotate_kernel<T, 1>;
    const int64_t threads_needed = heads * (width / 2) / (vectorized ? kVectorSize : 1);
    const int threads = threads_needed > kRowThreads ? kFlatThreads : threads_needed > 32 ? kRowThreads : 32;
    launch(kernel, dim3(static_cast<unsigned int>(rows)), threads, 0, stream, in<T>(x), stride, cos, sin, direction,
           static_cast<int>(heads), static_cast<int>(width / 2), static_cast<T*>(y));
  });
  return static_cast<int>(cudaGetLastError());
}

int dropout(const void* x, FloatType type, const int64_t* sequences, const int64_t* positions, int64_t rows,
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
