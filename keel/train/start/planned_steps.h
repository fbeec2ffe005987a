#pragma once

#include "keel/train/config/config.h"
#include "keel/train/start/demonstrations.h"
#include "keel/train/start/prompt_sources.h"

namespace keel {

/// Computes train.steps from train.data_epochs, if that is set. Fails (exit code 2) if both are set and contradict each
/// other, or if no step is left for the policy after critic.warmup_steps.
void plan_steps(Config& config, const PromptSources& prompt_sources);

/// Computes sft.steps from sft.data_epochs, for a run that continues from `state`.
void plan_sft_steps(Config& config, const Demonstrations& demonstrations, const SftState& state = {});

/// Returns the number of evaluations after the first `done` steps: every eval.every steps, and at the end.
int64_t remaining_evaluations(const Config& config, int64_t done);

/// Returns how often the held-out loss is measured: before, after, and every sft.eval_every updates.
int64_t num_loss_evaluations(const SftOptions& sft);

}  // namespace keel
