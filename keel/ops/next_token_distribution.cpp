#include "keel/ops/next_token_distribution.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"
#include "keel/kernels/cpu/row_statistics.h"
#include "keel/kernels/cuda/row_statistics.h"
#include "keel/ops/parallel_rows.h"

namespace keel {
namespace {

constexpr int64_t kFields = sizeof(RowNormalizer) / sizeof(double), kEntropyField = kFields - 1;

const float* float_data(const Tensor& x) { return x.const_data_ptr<float>(); }
const int64_t* int64_data(const Tensor& x) { return x.const_data_ptr<int64_t>(); }
float* mutable_float_data(const Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; }

RowNormalizer* normalizer_data(const Tensor& x) {
  return reinterpret_cast<RowNormalizer*>(x.mutable_data_ptr<double>());
}

/// Checks tokens on a CPU. On a GPU the check would synchronise; there the log-prob of an invalid token is NaN.
void check_ids(const Tensor& ids, int64_t vocab) {
  if (!ids.is_cpu() || ids.numel() == 0) return;
  const auto [min, max] = at::aminmax(ids);
  for (const int64_t id : {min.item<int64_t>(), max.item<int64_t>()})
    if (id < 0 || id >= vocab)
      fail(ExitCode::kBadInput, "a target token is ", id, ", but the model has a vocabulary of ", vocab,
           ". The tokenizer and the model do not belong together, or tokens were added without resizing the embedding");
}

}  // namespace

NextTokenDistribution::NextTokenDistribution(const Tensor& logits, double temperature)
    : logits_(logits.contiguous()),
      inverse_temperature_(temperature == 0 ? 1 : 1 / temperature),
      normalizers_(at::empty({logits.size(0), kFields}, logits.options().dtype(at::kDouble))) {
  const int64_t rows = logits_.size(0), vocab = logits_.size(1);
  RowNormalizer* const to = normalizer_data(normalizers_);
  run_row_kernel(
      logits_, "normalizing",
      [&](auto stream) {
        const Tensor workspace =
            at::empty({cuda::normalize_workspace_bytes(rows, vocab)}, logits_.options().dtype(at::kByte));
        return cuda::normalize_rows(float_data(logits_), rows, vocab, inverse_temperature_, to,
                                    workspace.mutable_data_ptr(), stream);
      },
      [&](int64_t begin, int64_t count) {
        cpu::normalize_rows(float_data(logits_) + begin * vocab, count, vocab, inverse_temperature_, to + begin);
      });
}

const RowNormalizer* NextTokenDistribution::normalizers() const { return normalizer_data(normalizers_); }

Tensor NextTokenDistribution::entropy() const { return normalizers_.select(1, kEntropyField).to(at::kFloat); }

void NextTokenDistribution::log_probabilities(const Tensor& ids, const Tensor& logp, const Tensor& other_logp) const {
  const int64_t rows = logits_.size(0), vocab = logits_.size(1), k = rows == 0 ? 0 : ids.numel() / rows;
  check_ids(ids, vocab);
  const int64_t* const tokens = int64_data(ids);
  float *const logps = mutable_float_data(logp), *const other_logps = mutable_float_data(other_logp);
  run_row_kernel(
      logits_, "log-probability",
      [&](auto stream) {
        return cuda::token_log_probabilities(float_data(logits_), normalizers(), rows, vocab, inverse_temperature_,
                                             tokens, k, logps, other_logps, stream);
      },
      [&](int64_t begin, int64_t count) {
        cpu::token_log_probabilities(float_data(logits_) + begin * vocab, normalizers() + begin, count, vocab,
                                     inverse_temperature_, tokens + begin * k, k, logps + begin * k,
                                     other_logps ? other_logps + begin * k : nullptr);
      });
}

NextTokenDistribution::LogProbs NextTokenDistribution::log_probs(const Tensor& ids) const {
  LogProbs result{at::empty(ids.sizes(), logits_.options()), at::empty(ids.sizes(), logits_.options())};
  log_probabilities(ids.contiguous(), result.logp, result.other_logp);
  return result;
}

Tensor NextTokenDistribution::logp(const Tensor& ids) const {
  const Tensor logp = at::empty(ids.sizes(), logits_.options());
  log_probabilities(ids.contiguous(), logp, {});
  return logp;
}

NextTokenDistribution::Divergences NextTokenDistribution::divergences_from(
    const NextTokenDistribution& behavior) const {
  const int64_t rows = logits_.size(0), vocab = logits_.size(1);
  const Divergences result{at::empty({rows}, logits_.options()), at::empty({rows}, logits_.options())};
  const float *const pi = float_data(logits_), *const mu = float_data(behavior.logits_);
  float *const tv = mutable_float_data(result.tv), *const kl = mutable_float_data(result.kl);
  run_row_kernel(
      logits_, "divergence",
      [&](auto stream) {
        return cuda::row_divergences(pi, normalizers(), mu, behavior.normalizers(), rows, vocab, inverse_temperature_,
                                     tv, kl, stream);
      },
      [&](int64_t begin, int64_t count) {
        cpu::row_divergences(pi + begin * vocab, normalizers() + begin, mu + begin * vocab,
                             behavior.normalizers() + begin, count, vocab, inverse_temperature_, tv + begin,
                             kl + begin);
      });
  return result;
}

/// The sum of the masses mu w of each row.
Tensor NextTokenDistribution::exact_totals(const ScoreMasses& centering) const {
  const int64_t rows = logits_.size(0), vocab = logits_.size(1);
  const Tensor totals = at::empty({rows}, logits_.options());
  float* const to = mutable_float_data(totals);
  run_row_kernel(
      logits_, "score centering",
      [&](auto stream) {
        return cuda::weighted_masses(float_data(logits_), normalizers(), rows, vocab, inverse_temperature_, centering,
                                     to, stream);
      },
      [&](int64_t begin, int64_t count) {
        cpu::weighted_masses(float_data(logits_) + begin * vocab, normalizers() + begin, count, vocab,
                             inverse_temperature_, centering.from_row(begin, vocab), to + begin);
      });
  return totals;
}

Tensor NextTokenDistribution::into_gradient(const Tensor& targets, const Tensor& coefficient,
                                            const Tensor& entropy_coefficient, at::ScalarType type,
                                            const ScoreCentering& centering) {
  const int64_t rows = logits_.size(0), vocab = logits_.size(1);
  check_ids(targets, vocab);
  const auto contiguous = [](const Tensor& x) { return x.defined() ? x.contiguous() : x; };
  const auto floats = [](const Tensor& x) { return x.defined() ? float_data(x) : nullptr; };
  const Tensor tokens = targets.contiguous(), c = coefficient.contiguous(), e = contiguous(entropy_coefficient);
  const Tensor advantages = contiguous(centering.advantages), ids = contiguous(centering.ids),
               masses = contiguous(centering.masses), others = contiguous(centering.others);
  LogitLoss loss{int64_data(tokens), float_data(c), floats(e), {.advantages = floats(advantages)}};
  Tensor totals = contiguous(centering.totals);
  if (advantages.defined() && centering.behavior != nullptr) {
    loss.centering.behavior_logits = float_data(centering.behavior->logits_);
    loss.centering.behavior_normalizers = centering.behavior->normalizers();
    loss.centering.weights = centering.weights;
    totals = exact_totals(loss.centering);
  } else if (advantages.defined()) {
    loss.centering.ids = int64_data(ids), loss.centering.masses = floats(masses);
    loss.centering.others = floats(others), loss.centering.count = ids.size(1);
  }
  loss.centering.totals = floats(totals);
  float* const to = mutable_float_data(logits_);
  Tensor gradient = type == at::kFloat ? logits_ : logits_.view(type).narrow(1, 0, vocab);
  run_row_kernel(
      logits_, "gradient",
      [&](auto stream) {
        return cuda::logits_to_gradients(to, normalizers(), rows, vocab, inverse_temperature_, loss,
                                         float_type(gradient), stream);
      },
      [&](int64_t begin, int64_t count) {
        cpu::logits_to_gradients(to + begin * vocab, normalizers() + begin, count, vocab, inverse_temperature_,
                                 loss.from_row(begin, vocab));
      });
  logits_ = Tensor();
  return gradient;
}

}  // namespace keel
