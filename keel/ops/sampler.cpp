#include "keel/ops/sampler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "keel/kernels/active_sequences.h"
#include "keel/kernels/cpu/filters.h"
#include "keel/kernels/cpu/sample.h"
#include "keel/kernels/cuda/filters.h"
#include "keel/kernels/cuda/sample.h"
#include "keel/ops/next_token_distribution.h"
#include "keel/ops/parallel_rows.h"

namespace keel {
namespace {

Tensor sample_on_cpu(const NextTokenDistribution& next, double temperature, uint64_t seed, const Tensor& rollout_ids,
                     const Tensor& completion_positions) {
  const Tensor& logits = next.logits();
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  const Tensor tokens = at::empty({rows}, logits.options().dtype(at::kLong));
  const float* from = logits.const_data_ptr<float>();
  const int64_t *ids = rollout_ids.const_data_ptr<int64_t>(), *steps = completion_positions.const_data_ptr<int64_t>();
  int64_t* const to = tokens.mutable_data_ptr<int64_t>();
  parallel_for_rows(rows, vocab, [&](int64_t begin, int64_t count) {
    cpu::sample_tokens(from + begin * vocab, next.normalizers() + begin, count, vocab, temperature, seed, ids + begin,
                       steps + begin, to + begin);
  });
  return tokens;
}

/// Views of the results of `rows` rows within one byte tensor, which to_host() copies at once.
SampledTokens view_results(const Tensor& storage, int64_t rows, int64_t top_k) {
  int64_t offset = 0;
  const auto take = [&](at::ScalarType type, int64_t columns) {
    const int64_t bytes = rows * columns * static_cast<int64_t>(c10::elementSize(type));
    return storage.narrow(0, std::exchange(offset, offset + bytes), bytes).view(type).view({rows, columns});
  };
  SampledTokens sampled{.tokens = take(at::kLong, 1).squeeze(1), .logp = {}, .other_logp = {}, .entropy = {}};
  if (top_k > 0) sampled.topk_ids = take(at::kLong, top_k);
  if (top_k > 0) sampled.topk_logp = take(at::kFloat, top_k);
  sampled.logp = take(at::kFloat, 1).squeeze(1);
  sampled.other_logp = take(at::kFloat, 1).squeeze(1);
  sampled.entropy = take(at::kFloat, 1).squeeze(1);
  sampled.storage = storage;
  return sampled;
}

/// A row has an int64 token, three float32 statistics, and an int64 id and a float32 log-prob for each top-k token.
int64_t result_bytes(int64_t rows, int64_t top_k) { return rows * (8 + 3 * 4 + top_k * (8 + 4)); }

/// Samples with one kernel that reads the logits once.
SampledTokens sample_on_gpu(const Tensor& logits, double temperature, uint64_t seed, const Tensor& rollout_ids,
                            const Tensor& completion_positions, int64_t top_k) {
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  const at::TensorOptions bytes = logits.options().dtype(at::kByte);
  const Tensor from = logits.contiguous();
  SampledTokens sampled = view_results(at::empty({result_bytes(rows, top_k)}, bytes), rows, top_k);
  launch_on_cuda(logits, "sampling", [&](auto stream) {
    const Tensor workspace = at::empty({cuda::sample_workspace_bytes(rows, vocab, top_k)}, bytes);
    return cuda::sample_tokens(
        {from.const_data_ptr<float>(), rows, vocab, temperature, seed, rollout_ids.const_data_ptr<int64_t>(),
         completion_positions.const_data_ptr<int64_t>(), top_k},
        {sampled.tokens.mutable_data_ptr<int64_t>(), sampled.logp.mutable_data_ptr<float>(),
         sampled.other_logp.mutable_data_ptr<float>(), sampled.entropy.mutable_data_ptr<float>(),
         top_k > 0 ? sampled.topk_ids.mutable_data_ptr<int64_t>() : nullptr,
         top_k > 0 ? sampled.topk_logp.mutable_data_ptr<float>() : nullptr},
        workspace.mutable_data_ptr(), stream);
  });
  return sampled;
}

void add_top_k(SampledTokens& sampled, const NextTokenDistribution& next, int64_t top_k) {
  sampled.storage = Tensor();
  sampled.topk_ids = std::get<1>(next.logits().topk(top_k, -1));
  sampled.topk_logp = next.logp(sampled.topk_ids);
}

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

Tensor apply_top_k(const Tensor& logits, int64_t k) {
  if (k == 0 || k >= logits.size(-1)) return logits;
  if (logits.is_cuda()) {
    const Tensor from = logits.contiguous(), kept = at::empty_like(from);
    launch_on_cuda(from, "top-k", [&](auto stream) {
      return cuda::keep_top_k(from.const_data_ptr<float>(), from.size(0), from.size(1), k,
                              kept.mutable_data_ptr<float>(), stream);
    });
    return kept;
  }
  const Tensor kth = std::get<0>(logits.topk(k, -1)).narrow(-1, k - 1, 1);
  return logits.masked_fill(logits < kth, kExcluded);
}

Tensor apply_top_p(const Tensor& logits, double temperature, double top_p) {
  if (top_p >= 1) return logits;
  const Tensor from = logits.contiguous(), kept = at::empty_like(from);
  const int64_t vocab = from.size(1);
  const float* const source = from.const_data_ptr<float>();
  float* const to = kept.mutable_data_ptr<float>();
  run_row_kernel(
      from, "top-p",
      [&](auto stream) { return cuda::keep_top_p(source, from.size(0), vocab, 1 / temperature, top_p, to, stream); },
      [&](int64_t begin, int64_t count) {
        cpu::keep_top_p(source + begin * vocab, count, vocab, 1 / temperature, top_p, to + begin * vocab);
      });
  return kept;
}

Tensor apply_min_p(const Tensor& logits, double temperature, double min_p) {
  if (min_p <= 0) return logits;
  const Tensor below = (logits - logits.amax(-1, /*keepdim=*/true)).to(at::kDouble) < temperature * std::log(min_p);
  return logits.masked_fill(below, kExcluded);
}

}  // namespace

SampledTokens to_host(const SampledTokens& sampled, bool wait) {
  const auto copy = [&](const Tensor& x) { return x.defined() ? x.to(at::kCPU, /*non_blocking=*/!wait) : x; };
  if (!sampled.storage.defined())
    return {copy(sampled.tokens),   copy(sampled.logp),      copy(sampled.other_logp), copy(sampled.entropy),
            copy(sampled.topk_ids), copy(sampled.topk_logp), copy(sampled.kept)};
  SampledTokens host = view_results(copy(sampled.storage), sampled.tokens.size(0),
                                    sampled.topk_ids.defined() ? sampled.topk_ids.size(1) : 0);
  host.kept = copy(sampled.kept);
  return host;
}

SampledTokens sample(const Tensor& logits, double temperature, uint64_t seed, const Tensor& rollout_ids,
                     const Tensor& completion_positions, int64_t top_k) {
  top_k = std::min(top_k, logits.size(1));
  if (logits.is_cuda()) {
    const bool in_kernel = top_k <= cuda::kMaxTopK;
    SampledTokens sampled =
        sample_on_gpu(logits, temperature, seed, rollout_ids, completion_positions, in_kernel ? top_k : 0);
    if (!in_kernel) add_top_k(sampled, NextTokenDistribution(logits, temperature), top_k);
    return sampled;
  }
  const NextTokenDistribution next(logits, temperature);
  const Tensor tokens = sample_on_cpu(next, temperature, seed, rollout_ids, completion_positions);
  const auto [logp, other_logp] = next.log_probs(tokens);
  SampledTokens sampled{tokens, logp, other_logp, next.entropy()};
  if (top_k > 0) add_top_k(sampled, next, top_k);
  return sampled;
}

Tensor with_logit_noise(const Tensor& logits, double deviation, uint64_t seed, const Tensor& rollout_ids,
                        const Tensor& completion_positions) {
  if (deviation == 0) return logits;
  const Tensor noisy = logits.clone(at::MemoryFormat::Contiguous);
  const int64_t rows = noisy.size(0), vocab = noisy.size(1);
  const int64_t *ids = rollout_ids.const_data_ptr<int64_t>(), *steps = completion_positions.const_data_ptr<int64_t>();
  float* const to = noisy.mutable_data_ptr<float>();
  run_row_kernel(
      noisy, "logit noise",
      [&](auto stream) { return cuda::add_logit_noise(to, rows, vocab, deviation, seed, ids, steps, stream); },
      [&](int64_t begin, int64_t count) {
        cpu::add_logit_noise(to + begin * vocab, count, vocab, deviation, seed, ids + begin, steps + begin);
      });
  return noisy;
}

Tensor filter_logits(const Tensor& logits, double temperature, const SamplingFilter& filter) {
  if (filter.keeps_all() || temperature == 0) return logits;
  return apply_min_p(apply_top_p(apply_top_k(logits, filter.top_k), temperature, filter.top_p), temperature,
                     filter.min_p);
}

ActiveSequences ActiveSequences::first(int64_t count) const {
  const auto part = [&](const Tensor& x) { return x.narrow(0, 0, count); };
  return {part(tokens), part(positions), part(num_generated), part(max_new_tokens), part(rows)};
}

void advance(const ActiveSequences& batch, const Tensor& sampled, const Tensor& stop_ids) {
  const ActiveSequencePointers rows{batch.tokens.mutable_data_ptr<int64_t>(),
                                    batch.positions.mutable_data_ptr<int64_t>(),
                                    batch.num_generated.mutable_data_ptr<int64_t>(),
                                    batch.max_new_tokens.const_data_ptr<int64_t>(),
                                    reinterpret_cast<PagedRow*>(batch.rows.mutable_data_ptr<int32_t>()),
                                    batch.tokens.size(0)};
  const NextTokenPointers next{sampled.const_data_ptr<int64_t>(), stop_ids.const_data_ptr<int64_t>(), stop_ids.size(0)};
  if (sampled.is_cuda())
    launch_on_cuda(sampled, "advancing", [&](auto stream) { return cuda::advance_rows(rows, next, stream); });
  else
    for (int64_t i = 0; i < rows.count; ++i) advance_row(rows, next, i);
}

}  // namespace keel
