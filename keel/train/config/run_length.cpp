#include <algorithm>

#include "keel/core/error.h"
#include "keel/train/config/config.h"

namespace keel {
namespace {

/// Returns whether a length is set on the command line, and not to null.
bool is_set_on_command_line(const ConfigTree& tree, const std::string& option) {
  const std::string name = command_line_name(tree, option);
  return !name.empty() && find_non_null(tree, name) != nullptr;
}

}  // namespace

void resolve_length(const ConfigTree& tree, const std::string& section, int64_t& steps,
                    std::optional<double>& data_epochs) {
  if (!data_epochs) return;
  const std::string steps_key = section + ".steps", epochs_key = section + ".data_epochs";
  const bool steps_typed = is_set_on_command_line(tree, steps_key),
             epochs_typed = is_set_on_command_line(tree, epochs_key);
  if (steps_typed && !epochs_typed)
    data_epochs.reset();
  else if (find_non_null(tree, steps_key) == nullptr || (epochs_typed && !steps_typed))
    steps = 0;
  else if (steps == 0)
    fail(ExitCode::kBadConfiguration, location_of(tree, steps_key), ": ", steps_key, " is 0, but ", epochs_key, " is ",
         *data_epochs, "; remove one of the two");
}

double Config::planned_critic_updates(int64_t steps) const {
  return static_cast<double>(steps) * static_cast<double>(updates_per_step());
}

double Config::planned_updates(int64_t steps) const {
  return planned_critic_updates(std::max<int64_t>(steps - critic.warmup_steps, 0));
}

OptimizerOptions Config::sft_optimizer() const {
  constexpr double kTaskLr = 3e-3, kFilesLr = 2e-5, kAdapterLr = 2e-4;
  OptimizerOptions options = sft.optimizer;
  options.lr = sft.lr.value_or(sft.files.empty() ? kTaskLr : lora.used() ? kAdapterLr : kFilesLr);
  return options;
}

}  // namespace keel
