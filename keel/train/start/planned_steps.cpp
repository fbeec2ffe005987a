#include "keel/train/start/planned_steps.h"

#include "keel/core/error.h"

namespace keel {

void plan_sft_steps(Config& config, const Demonstrations& demonstrations, const SftState& state) {
  SftOptions& sft = config.sft;
  if (!sft.data_epochs || !demonstrations.from_files()) return;
  const int64_t steps = demonstrations.planned_steps(state);
  if (sft.steps != 0 && sft.steps != steps)
    fail(ExitCode::kBadConfiguration, "sft.steps is ", sft.steps, ", but sft.data_epochs=", *sft.data_epochs, " over ",
         demonstrations.rows_per_epoch(), " rows gives ", steps, " updates of ", sft.batch,
         " (sft.batch); remove one of the two");
  sft.steps = steps;
}

void plan_steps(Config& config, const PromptSources& prompt_sources) {
  TrainOptions& train = config.train;
  if (!train.data_epochs) return;
  const double prompts = static_cast<double>(prompt_sources.prompts_per_epoch());
  const double steps_exact = *train.data_epochs * prompts / static_cast<double>(train.prompts_per_step);
  const int64_t steps = round_up_epochs(steps_exact);
  if (train.steps != 0 && train.steps != steps)
    fail(ExitCode::kBadConfiguration, "train.steps is ", train.steps, ", but train.data_epochs=", *train.data_epochs,
         " over ", prompts, " prompts gives ", steps, " steps of ", train.prompts_per_step,
         " (train.prompts_per_step); remove one of the two");
  train.steps = steps;
  if (config.critic.warmup_steps >= steps)
    fail(ExitCode::kBadConfiguration, "critic.warmup_steps is ", config.critic.warmup_steps,
         ", but train.data_epochs=", *train.data_epochs, " over ", prompts, " prompts gives ", steps,
         " steps, so the policy would never be trained; lower critic.warmup_steps or raise train.data_epochs");
}

int64_t remaining_evaluations(const Config& config, int64_t done) {
  const int64_t steps = config.train.steps, every = config.eval.every;
  if (config.eval.prompts == 0 || done >= steps) return 0;
  return 1 + (every > 0 ? (steps - 1) / every - done / every : 0);
}

int64_t num_loss_evaluations(const SftOptions& sft) {
  return 2 + (sft.eval_every > 0 && sft.steps > 0 ? (sft.steps - 1) / sft.eval_every : 0);
}

}  // namespace keel
