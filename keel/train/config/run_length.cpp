#include <algorithm>

#include "keel/core/error.h"
#include "keel/train/config/config.h"
#include "keel/train/config/foreign_names.h"

namespace keel {

bool passes_are_typed(const ConfigTree& tree) {
  return typed_name(tree, "train.steps").empty() && !typed_name(tree, "train.data_epochs").empty();
}

void choose_length(const ConfigTree& tree, const OptionTable& table, TrainOptions& train) {
  if (!train.data_epochs) return;
  const std::string steps = "train.steps", epochs = "train.data_epochs";
  const bool steps_typed = !typed_name(tree, steps).empty(), epochs_typed = !typed_name(tree, epochs).empty();
  if (steps_typed && !epochs_typed)
    train.data_epochs.reset();
  else if (!is_set(tree, table, steps) || (epochs_typed && !steps_typed))
    train.steps = 0;
  else if (train.steps == 0)
    fail(ExitCode::kBadConfiguration, place_of(tree, steps), ": train.steps is 0, but train.data_epochs is ",
         *train.data_epochs, "; remove one of the two");
}

double Config::planned_critic_updates() const {
  return static_cast<double>(train.steps) * static_cast<double>(updates_per_step());
}

double Config::planned_updates() const {
  const int64_t learning = std::max<int64_t>(train.steps - critic.warmup_steps, 0);
  return static_cast<double>(learning) * static_cast<double>(updates_per_step());
}

}  // namespace keel
