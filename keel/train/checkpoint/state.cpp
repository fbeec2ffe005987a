#include "keel/train/checkpoint/state.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "keel/core/error.h"
#include "keel/core/files/json_file.h"

namespace keel {
namespace {

const char* const kPhaseNames[] = {"sft", "rl", "done"};

/// One list of the fields serves writing and reading.
template <class State, class Visitor>
void visit_fields(State& s, const Visitor& visitor) {
  visitor("step", s.step);
  visitor("updates", s.updates);
  visitor("rl_steps", s.rl_steps);
  visitor("rl_updates", s.rl_updates);
  visitor("critic_updates", s.critic_updates);
  visitor("prompts", s.prompts);
  visitor("skipped", s.skipped);
  visitor("skipped_in_a_row", s.skipped_in_a_row);
  visitor("last_evaluation", s.last_evaluation);
  visitor("delta_low", s.delta_low);
  visitor("delta_high", s.delta_high);
  visitor("reward_kl_coefficient", s.reward_kl_coefficient);
  visitor("low_entropy_steps", s.health.low_entropy);
  visitor("equal_rewards_steps", s.health.equal_rewards);
  visitor("all_truncated_steps", s.health.all_truncated);
  visitor("high_mismatch_steps", s.health.high_mismatch);
  visitor("reward_window_steps", s.health.reward_steps);
  visitor("reward_window_sum", s.health.reward_sum);
  visitor("best_reward", s.health.best_reward);
  visitor("base_checksum", s.base_checksum);
  visitor("adapter_apart", s.adapter_apart);
  visitor("best_metric", s.best_metric);
  visitor("best_value", s.best_value);
  visitor("best_step", s.best_step);
  visitor("data", s.data);
  visitor("data_rows", s.data_rows);
  visitor("eval_data", s.eval_data);
  visitor("sft_steps", s.sft_steps);
  visitor("noisy_steps", s.noisy_steps);
  visitor("noisy", s.noisy);
  visitor("loss_average", s.loss_average);
  visitor("sft_position", s.sft_position);
  visitor("sft_rows", s.sft_rows);
  visitor("sft_data", s.sft_data);
  visitor("sft_data_rows", s.sft_data_rows);
  visitor("sft_eval_data", s.sft_eval_data);
  visitor("last_sft_evaluation", s.last_sft_evaluation);
}

/// The library would cut a number that does not fit, or wrap it around.
template <class Value>
void read_field(const Json& stored, const char* name, const std::string& place, Value& value) {
  const auto require = [&](bool fits, const char* wanted) {
    if (!fits) fail(ExitCode::kBadInput, place, ": ", name, " is ", shown_json(stored), "; wanted ", wanted);
  };
  if constexpr (std::is_same_v<Value, bool>) {
    require(stored.is_boolean(), "true or false");
  } else if constexpr (std::is_integral_v<Value>) {
    const bool may_be_none = std::string_view(name) == "last_evaluation" || std::string_view(name) == "best_step" ||
                             std::string_view(name) == "last_sft_evaluation";
    const int64_t lowest = may_be_none ? -1 : 0;
    const bool is_count = stored.is_number_unsigned() ? std::in_range<int64_t>(stored.get<uint64_t>())
                                                      : stored.is_number_integer() && stored.get<int64_t>() >= lowest;
    require(is_count && std::in_range<Value>(stored.get<int64_t>()), "a count");
  } else if constexpr (std::is_floating_point_v<Value>) {
    require(stored.is_number(), "a number");
  } else {
    require(stored.is_string(), "a text");
  }
  stored.get_to(value);
}

/// What was written by hand, or of two states.
void require_consistent(const TrainState& s, const std::string& place) {
  if (s.step - s.sft_steps != s.rl_steps)
    fail(ExitCode::kBadInput, place, ": step is ", s.step, ", but sft_steps and rl_steps are ", s.sft_steps, " and ",
         s.rl_steps,
         "; wanted their sum. Restore the file, or resume from an older checkpoint by moving this one away");
  for (const auto& [name, of] : {std::pair{"best_step", s.best_step},
                                 {"last_evaluation", s.last_evaluation},
                                 {"last_sft_evaluation", s.last_sft_evaluation}})
    if (of > s.step)
      fail(ExitCode::kBadInput, place, ": ", name, " is ", of, ", later than step, which is ", s.step,
           "; restore the file");
}

}  // namespace

void TrainState::count_update(bool made, bool overflowed) {
  skipped += made ? 0 : 1;
  if (!overflowed) skipped_in_a_row = made ? 0 : skipped_in_a_row + 1;
}

bool TrainState::note_evaluation(const Json& row, const std::string& metric) {
  const auto found = row.find(metric);
  if (found == row.end() || !found->is_number()) return false;
  const double value = found->get<double>();
  if (!std::isfinite(value) || (best_metric == metric && best_step >= 0 && value <= best_value)) return false;
  best_metric = metric;
  best_value = value;
  best_step = step;
  return true;
}

Json to_json(const TrainState& state) {
  Json json = {{"phase", kPhaseNames[static_cast<int>(state.phase)]}};
  visit_fields(state, [&](const char* name, const auto& value) { json[name] = value; });
  return json;
}

TrainState state_from_json(const Json& json, const std::string& place) {
  TrainState state;
  try {
    const Json& stored = json.at("phase");
    const std::string phase = stored.is_string() ? stored.get<std::string>() : shown_json(stored);
    const auto found = std::find(std::begin(kPhaseNames), std::end(kPhaseNames), phase);
    if (found == std::end(kPhaseNames)) fail(ExitCode::kBadInput, place, ": unknown phase \"", phase, "\"");
    state.phase = static_cast<Phase>(found - std::begin(kPhaseNames));
    visit_fields(state, [&](const char* name, auto& value) {
      if (!json.contains(name))
        fail(ExitCode::kBadInput, place, ": ", name, " is missing; the checkpoint was written by another version");
      read_field(json.at(name), name, place, value);
    });
  } catch (const Json::exception& error) {
    fail(ExitCode::kBadInput, place, ": ", error.what(), "; the checkpoint was written by another version");
  }
  require_consistent(state, place);
  return state;
}

}  // namespace keel
