#include "keel/ops/next_token_distribution.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"
#include "keel/kernels/cpu/row_statistics.h"
#include "keel/kernels/cuda/row_statistics.h"
#include "keel/ops/parallel_rows.h"

namespace keel {
namespace {

constexpr int64_t kNumbers = sizeof(RowNormalizer) / sizeof(double);

const float* floats_in(const Tensor& x) { return x.const_data_ptr<float>(); }
const int64_t* ids_in(const Tensor& x) { return x.const_data_ptr<int64_t>(); }
float* floats_out(const Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; }

RowNormalizer* normalizers_in(const Tensor& x) {
  return reinterpret_cast<RowNormalizer*>(x.mutable_data_ptr<double>());
}

/// Of tokens on a CPU; on a GPU that would wait for it, and a stray token becomes NaN there.
void check_ids(const Tensor& ids, int64_t vocab) {
  if (!ids.is_cpu() || ids.numel() == 0) return;
  const auto [least, most] = at::aminmax(ids);
  for (const int64_t id : {least.item<int64_t>(), most.item<int64_t>()})
    if (id < 0 || id >= vocab)
      fail(ExitCode::kBadInput, "a token to be predicted is ", id, ", and the model has a vocabulary of ", vocab,
           "; the tokenizer and the model do not belong together, or tokens were added without resizing the embedding");
}

}  // namespace

NextTokenDistribution::NextTokenDistribution(const Tensor& logits, double temperature)
    : logits_(logits.contiguous()),
      inverse_temperature_(temperature == 0 ? 1 : 1 / temperature),
      normalizers_(at::empty({logits.size(0), kNumbers}, logits.options().dtype(at::kDouble))) {
  const int64_t rows = logits_.size(0), vocab = logits_.size(1);
  RowNormalizer* const to = normalizers_in(normalizers_);
  run_row_kernel(
      logits_, "normalizing",
      [&](auto stream) {
        const Tensor room =
            at::empty({cuda::normalize_workspace_bytes(rows, vocab)}, logits_.options().dtype(at::kByte));
        return cuda::normalize_rows(floats_in(logits_), rows, vocab, inverse_temperature_, to, room.mutable_data_ptr(),
                                    stream);
      },
      [&](int64_t begin, int64_t count) {
        cpu::normalize_rows(floats_in(logits_) + begin * vocab, count, vocab, inverse_temperature_, to + begin);
      });
}

const RowNormalizer* NextTokenDistribution::normalizers() const { return normalizers_in(normalizers_); }

Tensor NextTokenDistribution::entropy() const { return normalizers_.select(1, kNumbers - 1).to(at::kFloat); }

void NextTokenDistribution::log_probabilities(const Tensor& ids, const Tensor& logp, const Tensor& other_logp) const {
  const int64_t rows = logits_.size(0), vocab = logits_.size(1), k = rows == 0 ? 0 : ids.numel() / rows;
  check_ids(ids, vocab);
  const int64_t* const tokens = ids_in(ids);
  float *const logps = floats_out(logp), *const others = floats_out(other_logp);
  run_row_kernel(
      logits_, "log-probability",
      [&](auto stream) {
        return cuda::token_log_probabilities(floats_in(logits_), normalizers(), rows, vocab, inverse_temperature_,
                                             tokens, k, logps, others, stream);
      },
      [&](int64_t begin, int64_t count) {
        cpu::token_log_probabilities(floats_in(logits_) + begin * vocab, normalizers() + begin, count, vocab,
                                     inverse_temperature_, tokens + begin * k, k, logps + begin * k,
                                     others ? others + begin * k : nullptr);
      });
}

NextTokenDistribution::LogProbs NextTokenDistribution::of(const Tensor& ids) const {
  LogProbs result{at::empty(ids.sizes(), logits_.options()), at::empty(ids.sizes(), logits_.options())};
  log_probabilities(ids.contiguous(), result.logp, result.other_logp);
  return result;
}

Tensor NextTokenDistribution::logp_of(const Tensor& ids) const {
  const Tensor logp = at::empty(ids.sizes(), logits_.options());
  log_probabilities(ids.contiguous(), logp, {});
  return logp;
}

NextTokenDistribution::Divergences NextTokenDistribution::from(const NextTokenDistribution& behavior) const {
  const int64_t rows = logits_.size(0), vocab = logits_.size(1);
  const Divergences result{at::empty({rows}, logits_.options()), at::empty({rows}, logits_.options())};
  const float *const mine = floats_in(logits_), *const theirs = floats_in(behavior.logits_);
  float *const tv = floats_out(result.tv), *const kl = floats_out(result.kl);
  run_row_kernel(
      logits_, "divergence",
      [&](auto stream) {
        return cuda::row_divergences(mine, normalizers(), theirs, behavior.normalizers(), rows, vocab,
                                     inverse_temperature_, tv, kl, stream);
      },
      [&](int64_t begin, int64_t count) {
        cpu::row_divergences(mine + begin * vocab, normalizers() + begin, theirs + begin * vocab,
                             behavior.normalizers() + begin, count, vocab, inverse_temperature_, tv + begin,
                             kl + begin);
      });
  return result;
}

Tensor NextTokenDistribution::into_gradient(const Tensor& targets, const Tensor& coefficient,
                                            const Tensor& entropy_coefficient, at::ScalarType type) {
  const int64_t rows = logits_.size(0), vocab = logits_.size(1);
  check_ids(targets, vocab);
  const Tensor tokens = targets.contiguous(), c = coefficient.contiguous(),
               e = entropy_coefficient.defined() ? entropy_coefficient.contiguous() : entropy_coefficient;
  const LogitLoss loss{ids_in(tokens), floats_in(c), e.defined() ? floats_in(e) : nullptr};
  float* const to = floats_out(logits_);
  Tensor gradient = type == at::kFloat ? logits_ : logits_.view(type).narrow(1, 0, vocab);
  run_row_kernel(
      logits_, "gradient",
      [&](auto stream) {
        return cuda::logits_to_gradients(to, normalizers(), rows, vocab, inverse_temperature_, loss,
                                         float_type(gradient), stream);
      },
      [&](int64_t begin, int64_t count) {
        const LogitLoss part{loss.targets + begin, loss.coefficients + begin,
                             loss.entropy_coefficients ? loss.entropy_coefficients + begin : nullptr};
        cpu::logits_to_gradients(to + begin * vocab, normalizers() + begin, count, vocab, inverse_temperature_, part);
      });
  logits_ = Tensor();
  return gradient;
}

}  // namespace keel
