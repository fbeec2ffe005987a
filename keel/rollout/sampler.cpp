#include "keel/rollout/sampler.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <limits>

#include "keel/core/error.h"
#include "keel/kernels/cpu/sample.h"
#include "keel/kernels/cuda/sample.h"

namespace keel {
namespace {

void sample_on_cuda([[maybe_unused]] const Tensor& logits, [[maybe_unused]] double temperature,
                    [[maybe_unused]] uint64_t seed, [[maybe_unused]] const Tensor& rollout_ids,
                    [[maybe_unused]] const Tensor& positions, [[maybe_unused]] const Drawn& drawn) {
#ifdef KEEL_HAS_CUDA
  // Through the device-neutral interface: this file compiles without the CUDA toolkit's headers.
  const c10::impl::VirtualGuardImpl device(at::kCUDA);
  void* stream = device.getStream(logits.device()).native_handle();
  const int error = cuda::sample_tokens(logits.const_data_ptr<float>(), logits.size(0), logits.size(1),
                                        static_cast<float>(temperature), seed, rollout_ids.const_data_ptr<int64_t>(),
                                        positions.const_data_ptr<int64_t>(), drawn.tokens.data_ptr<int64_t>(),
                                        drawn.logp.data_ptr<float>(), stream);
  if (error != 0) fail(ExitCode::kInternal, "sampling kernel: CUDA error ", error);
#else
  fail(ExitCode::kBadConfiguration, "this build has no CUDA kernels; install the CUDA toolkit (nvcc) and build again");
#endif
}

}  // namespace

Drawn sample(const Tensor& logits, double temperature, uint64_t seed, const Tensor& rollout_ids,
             const Tensor& positions) {
  const Tensor rows = logits.contiguous();
  const Drawn drawn{at::empty({rows.size(0)}, rows.options().dtype(at::kLong)),
                    at::empty({rows.size(0)}, rows.options())};
  if (rows.is_cuda()) {
    sample_on_cuda(rows, temperature, seed, rollout_ids, positions, drawn);
  } else {
    cpu::sample_tokens(rows.const_data_ptr<float>(), rows.size(0), rows.size(1), static_cast<float>(temperature), seed,
                       rollout_ids.const_data_ptr<int64_t>(), positions.const_data_ptr<int64_t>(),
                       drawn.tokens.data_ptr<int64_t>(), drawn.logp.data_ptr<float>());
  }
  return drawn;
}

Tensor nucleus(const Tensor& logits, double temperature, double top_p) {
  if (top_p >= 1 || temperature == 0) return logits;
  const auto [sorted, order] = at::sort(logits.to(at::kDouble), /*stable=*/true, /*dim=*/-1, /*descending=*/true);
  const Tensor probabilities = at::softmax(sorted / temperature, -1);
  const Tensor outside = (probabilities.cumsum(-1) - probabilities).ge(top_p);  // likelier tokens are enough already
  return logits.masked_fill(at::zeros_like(outside).scatter(-1, order, outside),
                            -std::numeric_limits<float>::infinity());
}

}  // namespace keel
