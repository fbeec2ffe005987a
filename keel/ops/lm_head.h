#pragma once

#include <functional>

#include "keel/core/requirements.h"
#include "keel/core/tensor/tensor.h"
#include "keel/ops/weight.h"

namespace keel {

/// What the sampler knew about the same rows, for statistics that compare two distributions. Undefined: not asked for.
struct BehaviorRows {
  Tensor topk_ids = {};  // [M, K] int64: tokens whose log-probability is wanted
  Tensor hidden = {};    // [M, H] the sampler's hidden states; with its head, the whole distribution mu
  Tensor weight = {};    // [V, H] the sampler's head
};

/// What the head says about each target token, at the sampling temperature; all [M] float32.
struct TokenStats {
  Tensor logp;             // log pi of the target, at most 0
  Tensor entropy;          // of the whole next-token distribution
  Tensor other_logp = {};  // log(1 - pi) of the target: the log-probability of any other token
  Tensor topk_logp = {};   // [M, K] log pi of the asked tokens
  Tensor full_tv = {};     // exact total variation to mu
  Tensor full_kl = {};     // exact KL(mu || pi)
};

/// What the loss makes of the statistics: d loss = -sum coefficient_t d logp_t - sum entropy_coefficient_t d H_t.
struct HeadCoefficients {
  Tensor coefficient;          // [M]
  Tensor entropy_coefficient;  // [M], or undefined for none
};

/// From the statistics of the rows [begin, end) to their coefficients; carries no gradient.
using CoefficientFunction = std::function<HeadCoefficients(const TokenStats& stats, int64_t begin, int64_t end)>;

/// cap tanh(x / cap), or x where the cap is 0: Gemma 2 bounds its logits so.
Tensor apply_softcap(const Tensor& x, double cap);

/// How a head's hidden states become distributions.
struct HeadOptions {
  double temperature = 1;
  double softcap = 0;      // of the logits; 0: none
  bool bitwise = false;    // logits with the bits that the sampler computes
  int64_t chunk_rows = 0;  // whose logits are alive at a time; 0: as many as take 768 MiB on a GPU, 64 MiB on a CPU
};

/// The LM head: from hidden states to the few numbers a method needs and, given coefficients, to gradients. Logits
/// exist for one chunk of rows at a time and are never stored.
class LmHead {
 public:
  /// `weight` [V, H]; its gradient goes to its sink.
  LmHead(Weight weight, const HeadOptions& options);

  /// The statistics alone; hidden [M, H], targets [M] int64.
  TokenStats statistics(const Tensor& hidden, const Tensor& targets, const BehaviorRows& behavior = {}) const;

  /// Adds d loss / d weight to the weight's sink and returns d loss / d hidden [M, H], both in float32.
  /// Token scope asks for coefficients chunk by chunk, while the chunk's logits are alive; wider scopes get the
  /// statistics of all rows at once and the logits are computed again.
  Tensor backward(const Tensor& hidden, const Tensor& targets, Scope scope, const CoefficientFunction& coefficients,
                  const BehaviorRows& behavior = {}) const;

 private:
  struct Chunk;
  Chunk make_chunk(const Tensor& hidden, const Tensor& targets, const BehaviorRows& behavior, int64_t begin) const;

  Weight weight_;
  HeadOptions options_;
};

}  // namespace keel
