#pragma once

#include "keel/core/tensor/tensor.h"
#include "keel/kernels/row_math.h"

namespace keel {

/// Rows of logits as distributions of the next token, at a temperature. Trainer and sampler take their
/// log-probabilities from here alone, so that they differ by what their logits differ by. Sums are exact to about 1e-8,
/// and a log-probability is rounded once, to float32.
class NextTokenDistribution {
 public:
  /// `logits` [M, V] float32. Temperature 0 reports the untempered distribution.
  NextTokenDistribution(const Tensor& logits, double temperature);

  Tensor entropy() const;  // [M] float32

  struct LogProbs {
    Tensor logp;        // at most 0
    Tensor other_logp;  // log(1 - p), which keeps its digits where log p rounds to 0
  };
  /// Of one token of each row, or of K: ids [M] or [M, K] int64.
  LogProbs of(const Tensor& ids) const;
  Tensor logp_of(const Tensor& ids) const;  // the log-probabilities alone

  struct Divergences {
    Tensor tv, kl;  // [M] total variation, KL(mu || pi)
  };
  /// From the distributions `behavior` of the policy mu, at the same temperature.
  Divergences from(const NextTokenDistribution& behavior) const;

  /// The gradient [M, V] of a loss -sum c log p(target) - sum e H with respect to the logits, which it overwrites:
  /// nothing else can be asked afterwards. c and e are [M] float32; e may be undefined. Of `type`, which may be narrow
  /// on a GPU: each row then begins where its logits did.
  Tensor into_gradient(const Tensor& targets, const Tensor& coefficient, const Tensor& entropy_coefficient,
                       at::ScalarType type = at::kFloat);

  const Tensor& logits() const { return logits_; }
  const RowNormalizer* normalizers() const;  // [M], on the logits' device

 private:
  void log_probabilities(const Tensor& ids, const Tensor& logp, const Tensor& other_logp) const;

  Tensor logits_;
  double inverse_temperature_;
  Tensor normalizers_;  // [M, 4] float64: a RowNormalizer each
};

}  // namespace keel
