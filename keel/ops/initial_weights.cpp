#include "keel/ops/initial_weights.h"

#include <ATen/ATen.h>

#include "keel/kernels/cuda/initial_weights.h"
#include "keel/kernels/initial_weights.h"
#include "keel/ops/parallel_rows.h"

namespace keel {

Tensor initial_weights(const std::vector<int64_t>& shape, double deviation, uint64_t seed, uint64_t parameter,
                       at::Device device) {
  Tensor result = at::empty(shape, at::TensorOptions(at::kFloat).device(device));
  float* const to = result.mutable_data_ptr<float>();
  const int64_t count = result.numel();
  if (result.is_cuda()) {
    launch_on_cuda(result, "initial weights",
                   [&](auto stream) { return cuda::initial_weights(to, count, deviation, seed, parameter, stream); });
    return result;
  }
  parallel_for_rows((count + 1) / 2, 2, [&](int64_t first, int64_t pairs) {
    for (int64_t pair = first; pair < first + pairs; ++pair) {
      const InitialWeights two(deviation, seed, parameter, static_cast<uint64_t>(pair));
      to[2 * pair] = two.of[0];
      if (2 * pair + 1 < count) to[2 * pair + 1] = two.of[1];
    }
  });
  return result;
}

}  // namespace keel
