#include "keel/train/health.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"

namespace keel {
namespace {

/// The setting that governs the learning rate of the present phase.
const char* lr_option(Phase phase, const Config& config) {
  if (phase == Phase::kSft) return "sft.lr";
  return config.critic.exists() ? "optimizer.lr or critic.lr" : "optimizer.lr";
}

}  // namespace

void require_sound_updates(const TrainState& state, const Config& config) {
  if (state.skipped_in_a_row <= config.train.max_skipped_updates) return;
  fail(ExitCode::kHealthGuard, state.skipped_in_a_row,
       " updates in a row had a gradient norm that is not finite (step ", state.step + 1,
       "). Checkpoints are saved only with finite weights. Lower ", lr_option(state.phase, config),
       " in a new run (model.path may be a checkpoint), or look at log.txt for the prompts");
}

void require_finite_weights(const CausalLm& policy, const Critic* critic, const TrainState& state, const Config& config,
                            const std::filesystem::path& checkpoints) {
  std::vector<NamedTensor> parameters = masters_of(policy.trainable());
  if (critic)
    for (NamedTensor& parameter : critic->parameters())
      parameters.push_back({"the critic's " + parameter.name, parameter.value});
  for (const NamedTensor& parameter : parameters)
    if (!parameter.value.isfinite().all().item<bool>())
      fail(ExitCode::kHealthGuard, "step ", state.step, ": ", parameter.name, " holds numbers that are not finite, so ",
           "nothing was saved; the checkpoints in ", checkpoints.string(), " are sound. Lower ",
           lr_option(state.phase, config), " in a new run; it may start from one of them (model.path)");
}

}  // namespace keel
