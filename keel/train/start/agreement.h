#pragma once

#include <span>
#include <string>

#include "keel/core/prompt.h"
#include "keel/core/requirements.h"
#include "keel/rollout/engine.h"

namespace keel {

/// How far sampler and trainer are apart at equal weights.
struct Agreement {
  int64_t tokens = 0;
  double max_difference = 0;   // of log-probabilities
  double topk_difference = 0;  // of those of the sampler's likeliest tokens, where they were recorded
  double total_variation = 0;  // largest, exact, of the recorded hidden states' distributions, where there are any
};

/// Samples completions of the prompts and computes the log-probabilities of their tokens again the way training does,
/// with the same weights (an adapter is merged in the sampler's only). What else the request has recorded, the
/// likeliest tokens and the hidden states, is compared too. The two paths share one network, so what is left is
/// rounding; a larger gap is a bug or a broken machine, and training on it would be wrong.
Agreement sampler_trainer_agreement(const CausalLm& sampler, const CausalLm& trainer, const Tokenizer& tokenizer,
                                    std::span<const Prompt> prompts, const SamplingRequest& request,
                                    int64_t tokens_per_batch);

/// What was found, of what the method has recorded.
std::string agreement_sentence(const Agreement& agreement, const Requirements& needs);

/// Stops the run (exit code 4) when a difference is above the limit.
void require_agreement(const Agreement& agreement, double limit);

}  // namespace keel
