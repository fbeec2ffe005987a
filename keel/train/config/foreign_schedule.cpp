#include "keel/train/config/foreign_schedule.h"

#include <cmath>

#include "keel/core/error.h"
#include "keel/train/config/foreign_names.h"
#include "keel/train/config/foreign_sizes.h"

namespace keel {
namespace {

constexpr const char *kMaxSteps = "max_steps", *kScheduler = "lr_scheduler_type", *kWarmupSteps = "warmup_steps";

bool is_number_of_steps(const Json& value) { return value.is_number_integer() && value > 0; }

/// Passes over the data say nothing beside a number of steps.
AliasConverter passes(std::string steps) {
  return [=](const Json&, const ConfigTree& tree, const OptionTable&) -> Json {
    const Json* number = said(tree, steps);
    if ((number != nullptr && *number != -1) || said(tree, "train.steps") != nullptr) return kSetsNothing;
    fail(ExitCode::kBadConfiguration, "Keel counts rollout batches; set train.steps (rows of the data divided by ",
         "train.prompts_per_step, times the passes), or ", steps);
  };
}

/// A warm-up in updates or, below 1, as a share of all. Hugging Face's `constant` has none.
Json trl_warmup(const Json& value, const ConfigTree& tree, const OptionTable&) {
  if (value == 0 || value.is_null() || word_at(tree, kScheduler) == "constant") return kSetsNothing;
  if (!value.is_number() || value < 0 || value >= 1) return value;
  const Json* steps = said(tree, kMaxSteps);
  if (steps == nullptr || !is_number_of_steps(*steps))
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", a share of all updates, and ", kMaxSteps,
         " does not say how many they are; set that, or optimizer.warmup_updates");
  return static_cast<int64_t>(std::ceil(value.get<double>() * steps->get<double>()));
}

Json trl_warmup_share(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  const Json* steps = said(tree, kWarmupSteps);
  if (steps != nullptr && *steps != 0) return kSetsNothing;  // which wins there
  if (!value.is_number() || value < 0 || value > 1)
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted a share of all updates, from 0 to 1; or set ",
         "optimizer.warmup_updates");
  return trl_warmup(value == 1 ? Json(std::nextafter(1.0, 0.0)) : value, tree, table);
}

constexpr const char *kVerlWarmup = "actor_rollout_ref.actor.optim.lr_warmup_steps",
                     *kVerlSteps = "trainer.total_training_steps";

/// verl raises the rate from one rollout batch to the next.
Json verl_warmup(const Json& value, const ConfigTree&, const OptionTable& table) {
  if (value.is_null() || value == 0 || value == -1) return kSetsNothing;
  if (!is_number_of_steps(value))
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted a number of rollout batches, or -1; or set ",
         "optimizer.warmup_updates");
  return value.get<int64_t>() * updates_per_step(table);
}

Json verl_warmup_share(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  const Json* batches = said(tree, kVerlWarmup);
  if (value.is_null() || value == 0 || (batches != nullptr && *batches >= 0)) return kSetsNothing;
  const Json* steps = said(tree, kVerlSteps);
  if (!value.is_number() || value < 0 || value > 1 || steps == nullptr || !is_number_of_steps(*steps))
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", a share of ", kVerlSteps, ", which is ",
         steps == nullptr ? "not set" : steps->dump(), "; set that, or optimizer.warmup_updates");
  return static_cast<int64_t>(value.get<double>() * steps->get<double>()) * updates_per_step(table);
}

}  // namespace

void add_schedule_aliases(OptionTable& t) {
  t.alias("num_train_epochs", "train.steps", "TRL", passes(kMaxSteps), "nothing beside max_steps; refused without");
  t.alias(kWarmupSteps, "optimizer.warmup_updates", "TRL", trl_warmup,
          "below 1 a share of max_steps; nothing where lr_scheduler_type is constant, which has none");
  t.alias("warmup_ratio", "optimizer.warmup_updates", "TRL", trl_warmup_share, "times max_steps, rounded up");
  t.alias("trainer.total_epochs", "train.steps", "verl", passes(kVerlSteps),
          "nothing beside trainer.total_training_steps; refused without");
  t.alias(kVerlWarmup, "optimizer.warmup_updates", "verl", verl_warmup,
          "times the updates of a rollout batch, in each of which verl leaves the rate as it is; -1 is none");
  t.alias("actor_rollout_ref.actor.optim.lr_warmup_steps_ratio", "optimizer.warmup_updates", "verl", verl_warmup_share,
          "times trainer.total_training_steps and the updates of a rollout batch");
}

}  // namespace keel
