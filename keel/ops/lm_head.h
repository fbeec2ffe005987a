#pragma once

#include <functional>
#include <optional>

#include "keel/core/requirements.h"
#include "keel/core/tensor/tensor.h"
#include "keel/ops/kept_rows.h"
#include "keel/ops/next_token_distribution.h"
#include "keel/ops/weight.h"

namespace keel {

/// The sampler's record of the same rows. Undefined members are skipped. With `kept` all statistics and gradients are
/// of the truncated distributions: both policies, restricted to the kept tokens and renormalised.
struct BehaviorRows {
  Tensor topk_ids = {};  // [M, K] int64: tokens whose log-probs are computed
  Tensor hidden = {};    // [M, H] the sampler's hidden states; with `weight` they give the distribution mu
  Tensor weight = {};    // [V, H] the sampler's head
  KeptRows kept = {};    // [M] sets of tokens
  std::optional<TokenWeights> weights = {};  // of the method, for score centering in the exact form
};

/// Statistics of each target token at the sampling temperature; all [M] float32.
struct TokenStats {
  Tensor logp;             // log pi of the target, at most 0
  Tensor entropy;          // of the whole next-token distribution
  Tensor other_logp = {};  // log(1 - pi) of the target: the log-probability of not sampling it
  Tensor topk_logp = {};   // [M, K] log pi of BehaviorRows::topk_ids
  Tensor full_tv = {};     // exact total variation between pi and mu
  Tensor full_kl = {};     // exact KL(mu || pi)
};

/// Coefficients of the loss gradient: d loss = -sum coefficient_t d logp_t - sum entropy_coefficient_t d H_t.
struct HeadCoefficients {
  Tensor coefficient;             // [M]
  Tensor entropy_coefficient;     // [M], or undefined for none
  ScoreCentering centering = {};  // adds its loss; its `behavior` and `ids` are taken from BehaviorRows
};

/// Computes the coefficients of the rows [begin, end) from their statistics. Autograd does not run through it.
using CoefficientFunction = std::function<HeadCoefficients(const TokenStats& stats, int64_t begin, int64_t end)>;

/// cap tanh(x / cap), or x if the cap is 0. Gemma 2 limits its logits like this.
Tensor apply_softcap(const Tensor& x, double cap);

struct HeadOptions {
  double temperature = 1;
  double softcap = 0;      // on logits; 0: none
  bool bitwise = false;    // logits bitwise equal to the sampler's
  int64_t chunk_rows = 0;  // rows per chunk; 0: limit by memory (768 MiB on a GPU, 64 MiB on a CPU)
};

/// The LM head fused with the loss: computes statistics of target tokens from hidden states and, given coefficients,
/// the gradients. Logits exist for one chunk of rows at a time.
class LmHead {
 public:
  /// `weight` [V, H]; its gradient is added to its sink.
  LmHead(Weight weight, const HeadOptions& options);

  /// Statistics without gradients, for hidden [M, H] and targets [M] int64.
  TokenStats statistics(const Tensor& hidden, const Tensor& targets, const BehaviorRows& behavior = {}) const;

  /// Adds d loss / d weight to the weight's sink and returns d loss / d hidden [M, H], both in float32.
  /// With token scope, `coefficients` is called for each chunk. With wider scopes it is called once with the statistics
  /// of all rows, and the logits are computed twice.
  Tensor backward(const Tensor& hidden, const Tensor& targets, Scope scope, const CoefficientFunction& coefficients,
                  const BehaviorRows& behavior = {}) const;

 private:
  struct Chunk;
  Chunk make_chunk(const Tensor& hidden, const Tensor& targets, const BehaviorRows& behavior, int64_t begin) const;

  Weight weight_;
  HeadOptions options_;
};

}  // namespace keel
