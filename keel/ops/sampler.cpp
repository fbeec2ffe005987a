#include "keel/ops/sampler.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "keel/kernels/cpu/logit_noise.h"
#include "keel/kernels/cpu/sample.h"
#include "keel/kernels/cuda/logit_noise.h"
#include "keel/kernels/cuda/sample.h"
#include "keel/ops/for_rows.h"
#include "keel/ops/next_token.h"

namespace keel {
namespace {

Tensor draw(const NextToken& next, double temperature, uint64_t seed, const Tensor& rollout_ids,
            const Tensor& positions) {
  const Tensor& logits = next.logits();
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  const Tensor tokens = at::empty({rows}, logits.options().dtype(at::kLong));
  const float* from = logits.const_data_ptr<float>();
  const int64_t *ids = rollout_ids.const_data_ptr<int64_t>(), *places = positions.const_data_ptr<int64_t>();
  int64_t* const to = tokens.mutable_data_ptr<int64_t>();
  for_rows_of(
      logits, "sampling",
      [&](auto stream) {
        return cuda::draw_tokens(from, next.normalizers(), rows, vocab, temperature, seed, ids, places, to, stream);
      },
      [&](int64_t begin, int64_t count) {
        cpu::draw_tokens(from + begin * vocab, next.normalizers() + begin, count, vocab, temperature, seed, ids + begin,
                         places + begin, to + begin);
      });
  return tokens;
}

constexpr float kNever = -std::numeric_limits<float>::infinity();

Tensor likeliest(const Tensor& logits, int64_t k) {
  if (k == 0 || k >= logits.size(-1)) return logits;
  const Tensor least = std::get<0>(logits.topk(k, -1)).narrow(-1, k - 1, 1);
  return logits.masked_fill(logits < least, kNever);
}

Tensor without_tail(const Tensor& logits, double temperature, double top_p) {
  if (top_p >= 1) return logits;
  const auto [sorted, order] = at::sort(logits.to(at::kDouble), /*stable=*/true, /*dim=*/-1, /*descending=*/true);
  const Tensor probabilities = at::softmax(sorted / temperature, -1);
  const Tensor outside = (probabilities.cumsum(-1) - probabilities).ge(top_p);  // likelier tokens are enough already
  return logits.masked_fill(at::zeros_like(outside).scatter(-1, order, outside), kNever);
}

Tensor without_unlikely(const Tensor& logits, double temperature, double min_p) {
  if (min_p <= 0) return logits;
  const Tensor below = (logits - logits.amax(-1, /*keepdim=*/true)).to(at::kDouble) < temperature * std::log(min_p);
  return logits.masked_fill(below, kNever);
}

}  // namespace

Drawn sample(const Tensor& logits, double temperature, uint64_t seed, const Tensor& rollout_ids,
             const Tensor& positions) {
  const NextToken next(logits, temperature);
  const Tensor tokens = draw(next, temperature, seed, rollout_ids, positions);
  const auto [logp, other_logp] = next.of(tokens);
  return {tokens, logp, other_logp, next.entropy()};
}

Tensor with_noise(const Tensor& logits, double deviation, uint64_t seed, const Tensor& rollout_ids,
                  const Tensor& positions) {
  if (deviation == 0) return logits;
  const Tensor noisy = logits.clone(at::MemoryFormat::Contiguous);
  const int64_t rows = noisy.size(0), vocab = noisy.size(1);
  const int64_t *ids = rollout_ids.const_data_ptr<int64_t>(), *places = positions.const_data_ptr<int64_t>();
  float* const to = noisy.mutable_data_ptr<float>();
  for_rows_of(
      noisy, "logit noise",
      [&](auto stream) { return cuda::add_logit_noise(to, rows, vocab, deviation, seed, ids, places, stream); },
      [&](int64_t begin, int64_t count) {
        cpu::add_logit_noise(to + begin * vocab, count, vocab, deviation, seed, ids + begin, places + begin);
      });
  return noisy;
}

Tensor truncated(const Tensor& logits, double temperature, const Truncation& truncation) {
  if (truncation.nothing() || temperature == 0) return logits;
  return without_unlikely(without_tail(likeliest(logits, truncation.top_k), temperature, truncation.top_p), temperature,
                          truncation.min_p);
}

}  // namespace keel
