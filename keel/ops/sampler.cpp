#include "keel/ops/sampler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "keel/kernels/active_sequences.h"
#include "keel/kernels/cpu/sample.h"
#include "keel/kernels/cuda/sample.h"
#include "keel/ops/next_token_distribution.h"
#include "keel/ops/parallel_rows.h"

namespace keel {
namespace {

Tensor draw(const NextTokenDistribution& next, double temperature, uint64_t seed, const Tensor& rollout_ids,
            const Tensor& positions) {
  const Tensor& logits = next.logits();
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  const Tensor tokens = at::empty({rows}, logits.options().dtype(at::kLong));
  const float* from = logits.const_data_ptr<float>();
  const int64_t *ids = rollout_ids.const_data_ptr<int64_t>(), *places = positions.const_data_ptr<int64_t>();
  int64_t* const to = tokens.mutable_data_ptr<int64_t>();
  parallel_for_rows(rows, vocab, [&](int64_t begin, int64_t count) {
    cpu::draw_tokens(from + begin * vocab, next.normalizers() + begin, count, vocab, temperature, seed, ids + begin,
                     places + begin, to + begin);
  });
  return tokens;
}

/// Room for `rows` tokens and their `top_k` likeliest ones, or what lies in such bytes.
SampledTokens drawn_in(const Tensor& together, int64_t rows, int64_t top_k) {
  int64_t behind = 0;
  const auto next = [&](at::ScalarType type, int64_t columns) {
    const int64_t bytes = rows * columns * static_cast<int64_t>(c10::elementSize(type));
    return together.narrow(0, std::exchange(behind, behind + bytes), bytes).view(type).view({rows, columns});
  };
  SampledTokens drawn{.tokens = next(at::kLong, 1).squeeze(1), .logp = {}, .other_logp = {}, .entropy = {}};
  if (top_k > 0) drawn.topk_ids = next(at::kLong, top_k);
  if (top_k > 0) drawn.topk_logp = next(at::kFloat, top_k);
  drawn.logp = next(at::kFloat, 1).squeeze(1);
  drawn.other_logp = next(at::kFloat, 1).squeeze(1);
  drawn.entropy = next(at::kFloat, 1).squeeze(1);
  drawn.together = together;
  return drawn;
}

int64_t bytes_together(int64_t rows, int64_t top_k) { return rows * (8 + 3 * 4 + top_k * (8 + 4)); }

/// Where the logits are looked at once for everything.
SampledTokens gpu_sample(const Tensor& logits, double temperature, uint64_t seed, const Tensor& rollout_ids,
                         const Tensor& positions, int64_t top_k) {
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  const at::TensorOptions bytes = logits.options().dtype(at::kByte);
  const Tensor from = logits.contiguous();
  SampledTokens drawn = drawn_in(at::empty({bytes_together(rows, top_k)}, bytes), rows, top_k);
  launch_on_cuda(logits, "sampling", [&](auto stream) {
    const Tensor room = at::empty({cuda::draw_workspace_bytes(rows, vocab, top_k)}, bytes);
    return cuda::draw_tokens({from.const_data_ptr<float>(), rows, vocab, temperature, seed,
                              rollout_ids.const_data_ptr<int64_t>(), positions.const_data_ptr<int64_t>(), top_k},
                             {drawn.tokens.mutable_data_ptr<int64_t>(), drawn.logp.mutable_data_ptr<float>(),
                              drawn.other_logp.mutable_data_ptr<float>(), drawn.entropy.mutable_data_ptr<float>(),
                              top_k > 0 ? drawn.topk_ids.mutable_data_ptr<int64_t>() : nullptr,
                              top_k > 0 ? drawn.topk_logp.mutable_data_ptr<float>() : nullptr},
                             room.mutable_data_ptr(), stream);
  });
  return drawn;
}

void add_likeliest(SampledTokens& drawn, const NextTokenDistribution& next, int64_t top_k) {
  drawn.together = Tensor();
  drawn.topk_ids = std::get<1>(next.logits().topk(top_k, -1));
  drawn.topk_logp = next.logp_of(drawn.topk_ids);
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

SampledTokens to_host(const SampledTokens& drawn, bool wait) {
  const auto copy = [&](const Tensor& x) { return x.defined() ? x.to(at::kCPU, /*non_blocking=*/!wait) : x; };
  if (drawn.together.defined())
    return drawn_in(copy(drawn.together), drawn.tokens.size(0), drawn.topk_ids.defined() ? drawn.topk_ids.size(1) : 0);
  return {copy(drawn.tokens),  copy(drawn.logp),     copy(drawn.other_logp),
          copy(drawn.entropy), copy(drawn.topk_ids), copy(drawn.topk_logp)};
}

SampledTokens sample(const Tensor& logits, double temperature, uint64_t seed, const Tensor& rollout_ids,
                     const Tensor& positions, int64_t top_k) {
  top_k = std::min(top_k, logits.size(1));
  if (logits.is_cuda()) {
    const bool few = top_k <= cuda::kMostLikeliest;
    SampledTokens drawn = gpu_sample(logits, temperature, seed, rollout_ids, positions, few ? top_k : 0);
    if (!few) add_likeliest(drawn, NextTokenDistribution(logits, temperature), top_k);
    return drawn;
  }
  const NextTokenDistribution next(logits, temperature);
  const Tensor tokens = draw(next, temperature, seed, rollout_ids, positions);
  const auto [logp, other_logp] = next.of(tokens);
  SampledTokens drawn{tokens, logp, other_logp, next.entropy()};
  if (top_k > 0) add_likeliest(drawn, next, top_k);
  return drawn;
}

Tensor with_logit_noise(const Tensor& logits, double deviation, uint64_t seed, const Tensor& rollout_ids,
                        const Tensor& positions) {
  if (deviation == 0) return logits;
  const Tensor noisy = logits.clone(at::MemoryFormat::Contiguous);
  const int64_t rows = noisy.size(0), vocab = noisy.size(1);
  const int64_t *ids = rollout_ids.const_data_ptr<int64_t>(), *places = positions.const_data_ptr<int64_t>();
  float* const to = noisy.mutable_data_ptr<float>();
  run_row_kernel(
      noisy, "logit noise",
      [&](auto stream) { return cuda::add_logit_noise(to, rows, vocab, deviation, seed, ids, places, stream); },
      [&](int64_t begin, int64_t count) {
        cpu::add_logit_noise(to + begin * vocab, count, vocab, deviation, seed, ids + begin, places + begin);
      });
  return noisy;
}

Tensor truncate_logits(const Tensor& logits, double temperature, const Truncation& truncation) {
  if (truncation.nothing() || temperature == 0) return logits;
  return without_unlikely(without_tail(likeliest(logits, truncation.top_k), temperature, truncation.top_p), temperature,
                          truncation.min_p);
}

ActiveSequences ActiveSequences::first(int64_t count) const {
  const auto part = [&](const Tensor& x) { return x.narrow(0, 0, count); };
  return {part(tokens), part(positions), part(places), part(limits), part(rows)};
}

void advance(const ActiveSequences& running, const Tensor& drawn, const Tensor& stop_ids) {
  const ActiveSequencePointers rows{running.tokens.mutable_data_ptr<int64_t>(),
                                    running.positions.mutable_data_ptr<int64_t>(),
                                    running.places.mutable_data_ptr<int64_t>(),
                                    running.limits.const_data_ptr<int64_t>(),
                                    reinterpret_cast<PagedRow*>(running.rows.mutable_data_ptr<int32_t>()),
                                    running.tokens.size(0)};
  const NextTokenPointers what{drawn.const_data_ptr<int64_t>(), stop_ids.const_data_ptr<int64_t>(), stop_ids.size(0)};
  if (drawn.is_cuda())
    launch_on_cuda(drawn, "advancing", [&](auto stream) { return cuda::advance_rows(rows, what, stream); });
  else
    for (int64_t i = 0; i < rows.count; ++i) advance_row(rows, what, i);
}

}  // namespace keel
