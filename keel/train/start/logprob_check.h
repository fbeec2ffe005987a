#pragma once

#include <optional>
#include <span>
#include <string>

#include "keel/core/prompt.h"
#include "keel/core/requirements.h"
#include "keel/model/network/causal_lm.h"
#include "keel/rollout/engine.h"

namespace keel {

/// How far sampler and trainer are apart at equal weights.
struct LogprobCheck {
  int64_t tokens = 0;
  double mean_difference = 0, max_difference = 0;  // |pi - mu| of the sampled tokens
  double topk_difference = 0;  // largest, of the sampler's likeliest tokens, where they were recorded
  double total_variation = 0;  // largest, exact, of the recorded hidden states' distributions, where there are any
};

/// Samples completions of the prompts and computes the log-probabilities of their tokens again the way training does,
/// with the same weights (an adapter is merged in the sampler's only, unless it is kept apart). What else the request
/// has recorded, the likeliest tokens and the hidden states, is compared too. The two paths share one network, so what
/// is left is rounding; a larger gap is a bug or a broken machine, and training on it would be wrong.
LogprobCheck check_sampler_matches_trainer(const SamplerWeights& sampled, const CausalLm& trainer,
                                           const Tokenizer& tokenizer, std::span<const Prompt> prompts,
                                           const SamplingRequest& request, int64_t tokens_per_batch);

/// What was found, of what the method has recorded.
std::string describe_logprob_check(const LogprobCheck& check, const Requirements& needs);

/// Says by what sampler and trainer are further apart than `limit`; nothing where they are not. In float32 it holds for
/// any token, in bf16 and fp16, whose rounding is coarse, on average; 0 is 0.0001 and 0.01.
std::optional<std::string> find_logprob_mismatch(const LogprobCheck& check, double limit,
                                                 at::ScalarType computed_in = at::kFloat);

/// Stops the run (exit code 4) where they are.
void require_logprobs_match(const LogprobCheck& check, double limit, at::ScalarType computed_in = at::kFloat);

/// What to tell where the average is sound and a single probability is far off.
std::optional<std::string> logprob_check_warning(const LogprobCheck& check, at::ScalarType computed_in);

}  // namespace keel
