#pragma once

#include "keel/train/config/config.h"
#include "keel/train/start/demonstrations.h"
#include "keel/train/start/prompt_sources.h"

namespace keel {

/// Finds train.steps where train.data_epochs says how long the run is. One that is said beside it and is another number
/// is refused (exit code 2), and so is a length that leaves the policy no step.
void plan_steps(Config& config, const PromptSources& prompt_sources);

/// The same of sft.steps and sft.data_epochs, of a run that stands where the state says.
void plan_sft_steps(Config& config, const Demonstrations& demonstrations, const SftState& state = {});

/// How often a run of train.steps steps is evaluated after the first `done` of them: by eval.every, and at its end.
int64_t remaining_evaluations(const Config& config, int64_t done);

/// How often the loss is measured in sft.steps supervised updates: before, after, and by sft.eval_every.
int64_t num_loss_evaluations(const SftOptions& sft);

}  // namespace keel
