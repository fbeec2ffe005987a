#pragma once

#include "keel/core/tensor/tensor.h"
#include "keel/core/token_weight.h"
#include "keel/kernels/row_math.h"

namespace keel {

class NextTokenDistribution;

/// Score centering: the loss sum A m_v log p(v) over all tokens v, with constant masses m_v. In the exact form they are
/// mu w, from the distributions of the policy mu; else those of listed tokens are given, and m_v is a multiple of p(v)
/// for all others. `advantages` [M] undefined: none.
struct ScoreCentering {
  Tensor advantages = {};
  // Exact form.
  const NextTokenDistribution* behavior = nullptr;
  TokenWeights weights = {};
  // Top-K form.
  Tensor ids = {}, masses = {};     // [M, K] int64 and float32; negative ids are skipped
  Tensor others = {}, totals = {};  // [M] m_v/p(v) of the other tokens; sum of m_v over all
};

/// Distributions of the next token, from rows of logits and a temperature. Trainer and sampler share this code, so that
/// their log-probs differ only if their logits do. Sums are exact to about 1e-8, and a log-prob is rounded once, to
/// float32.
class NextTokenDistribution {
 public:
  /// `logits` [M, V] float32. Temperature 0 means the distribution at temperature 1.
  NextTokenDistribution(const Tensor& logits, double temperature);

  Tensor entropy() const;  // [M] float32

  struct LogProbs {
    Tensor logp;        // log p, at most 0
    Tensor other_logp;  // log(1 - p); accurate even if log p rounds to 0
  };
  /// Log-probs of one token or K tokens per row: ids [M] or [M, K] int64.
  LogProbs log_probs(const Tensor& ids) const;
  Tensor logp(const Tensor& ids) const;  // without other_logp

  struct Divergences {
    Tensor tv, kl;  // [M] total variation, KL(mu || pi)
  };
  /// Divergences from the distributions `behavior` of the policy mu, at the same temperature.
  Divergences divergences_from(const NextTokenDistribution& behavior) const;

  /// Returns the gradient [M, V] of the loss -sum c log p(target) - sum e H with respect to the logits. It overwrites
  /// the logits, so this object cannot be used afterwards. c and e are [M] float32; e may be undefined. On a GPU `type`
  /// may be bf16 or fp16; the gradient then reuses the logits' memory with their row stride in bytes.
  Tensor into_gradient(const Tensor& targets, const Tensor& coefficient, const Tensor& entropy_coefficient,
                       at::ScalarType type = at::kFloat, const ScoreCentering& centering = {});

  const Tensor& logits() const { return logits_; }
  const RowNormalizer* normalizers() const;  // [M], on the logits' device

 private:
  Tensor exact_totals(const ScoreMasses& centering) const;
  void log_probabilities(const Tensor& ids, const Tensor& logp, const Tensor& other_logp) const;

  Tensor logits_;
  double inverse_temperature_;
  Tensor normalizers_;  // [M, 4] float64: a RowNormalizer each
};

}  // namespace keel
