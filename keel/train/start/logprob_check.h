#pragma once

#include <optional>
#include <span>
#include <string>

#include "keel/core/prompt.h"
#include "keel/core/requirements.h"
#include "keel/model/network/causal_lm.h"
#include "keel/rollout/engine.h"

namespace keel {

/// Differences between the probabilities of sampler and trainer with equal weights.
struct LogprobCheck {
  int64_t tokens = 0;
  double mean_difference = 0, max_difference = 0;  // |pi - mu| of the sampled tokens
  double topk_difference = 0;                      // maximum over the sampler's top-K tokens, if recorded
  double total_variation = 0;                      // maximum, exact, from recorded hidden states, if any
};

/// Samples completions of the prompts and recomputes the log-probs of their tokens as training does, with the same
/// weights. (The sampler merges an adapter unless it is kept apart.) Recorded top-K tokens and hidden states are
/// compared too. Both paths share one network, so differences are rounding; a larger one is a bug or a hardware fault.
LogprobCheck check_sampler_matches_trainer(const SamplerWeights& sampled, const CausalLm& trainer,
                                           const Tokenizer& tokenizer, std::span<const Prompt> prompts,
                                           const SamplingRequest& request, int64_t tokens_per_batch);

/// Describes the result, with the statistics that the method needs.
std::string describe_logprob_check(const LogprobCheck& check, const Requirements& needs);

/// Describes a difference above `limit`, or returns nullopt. The limit applies to the maximum in float32 and to the
/// mean in bf16 and fp16; 0 means 0.0001 for float32 and 0.01 for the others.
std::optional<std::string> find_logprob_mismatch(const LogprobCheck& check, double limit,
                                                 at::ScalarType computed_in = at::kFloat);

/// Fails (exit code 4) if find_logprob_mismatch() finds one.
void require_logprobs_match(const LogprobCheck& check, double limit, at::ScalarType computed_in = at::kFloat);

/// Returns a warning if the mean is within the limit but a single probability differs much.
std::optional<std::string> logprob_check_warning(const LogprobCheck& check, at::ScalarType computed_in);

}  // namespace keel
