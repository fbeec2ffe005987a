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

/// The fields, for writing and reading: a value, an optional value, or a member of an optional struct, whose fields are
/// null together.
template <class State, class Visitor>
void visit_fields(State& s, const Visitor& visitor) {
  visitor("updates", s.updates);
  visitor("rl_steps", s.rl.steps);
  visitor("rl_updates", s.rl.updates);
  visitor("prompts", s.rl.prompt_position);
  visitor("skipped", s.skipped);
  visitor("skipped_in_a_row", s.skipped_in_a_row);
  visitor("last_evaluation", s.rl.last_evaluation);
  visitor("delta_low", s.rl.thresholds, &Thresholds::low);
  visitor("delta_high", s.rl.thresholds, &Thresholds::high);
  visitor("reward_kl_coefficient", s.rl.kl_coefficient);
  visitor("low_entropy_steps", s.rl.health.low_entropy);
  visitor("equal_rewards_steps", s.rl.health.equal_rewards);
  visitor("all_truncated_steps", s.rl.health.all_truncated);
  visitor("high_mismatch_steps", s.rl.health.high_mismatch);
  visitor("reward_window_steps", s.rl.health.reward_steps);
  visitor("reward_window_sum", s.rl.health.reward_sum);
  visitor("best_reward", s.rl.health.best_reward);
  visitor("early_reward_steps", s.rl.health.early_steps);
  visitor("first_step_steps", s.rl.health.first_step.steps);
  visitor("first_step_prompts", s.rl.health.first_step.prompts);
  visitor("first_step_mean", s.rl.health.first_step.mean);
  visitor("first_reward_steps", s.rl.health.first_rewards.steps);
  visitor("first_reward_prompts", s.rl.health.first_rewards.prompts);
  visitor("first_reward_mean", s.rl.health.first_rewards.mean);
  visitor("recent_reward_steps", s.rl.health.recent_rewards.steps);
  visitor("recent_reward_prompts", s.rl.health.recent_rewards.prompts);
  visitor("recent_reward_mean", s.rl.health.recent_rewards.mean);
  visitor("min_reward", s.rl.health.min_reward);
  visitor("max_reward", s.rl.health.max_reward);
  visitor("base_checksum", s.base_checksum);
  visitor("best_metric", s.best, &BestEvaluation::metric);
  visitor("best_value", s.best, &BestEvaluation::value);
  visitor("best_step", s.best, &BestEvaluation::step);
  visitor("data", s.rl.data.train);
  visitor("data_rows", s.rl.data.rows);
  visitor("eval_data", s.rl.data.eval);
  visitor("sft_steps", s.sft.steps);
  visitor("noisy_steps", s.sft.noisy_steps);
  visitor("noisy", s.sft.noisy);
  visitor("loss_average", s.sft.loss_average);
  visitor("sft_position", s.sft.position);
  visitor("sft_rows", s.sft.rows);
  visitor("sft_data", s.sft.data.train);
  visitor("sft_data_rows", s.sft.data.rows);
  visitor("sft_eval_data", s.sft.data.eval);
  visitor("last_sft_evaluation", s.sft.last_evaluation);
}

template <class Value>
Json field_json(const Value& value) {
  return value;
}
template <class Value>
Json field_json(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}
template <class Part, class Value>
Json field_json(const std::optional<Part>& part, Value Part::*member) {
  return part ? Json((*part).*member) : Json();
}

/// Checks the type and the range, because the JSON library would truncate or wrap numbers.
template <class Value>
void read_field(const Json& stored, const std::string& name, Value& value) {
  const auto require = [&](bool fits, const char* expected) {
    if (!fits) fail(ExitCode::kBadInput, name, " is ", format_short_json(stored), "; expected ", expected);
  };
  if constexpr (std::is_same_v<Value, bool>) {
    require(stored.is_boolean(), "true or false");
  } else if constexpr (std::is_integral_v<Value>) {
    const bool is_count = stored.is_number_unsigned() ? std::in_range<int64_t>(stored.get<uint64_t>())
                                                      : stored.is_number_integer() && stored.get<int64_t>() >= 0;
    require(is_count && std::in_range<Value>(stored.get<int64_t>()), "a count");
  } else if constexpr (std::is_floating_point_v<Value>) {
    require(stored.is_number(), "a number");
  } else {
    require(stored.is_string(), "a text");
  }
  stored.get_to(value);
}
template <class Value>
void read_field(const Json& stored, const std::string& name, std::optional<Value>& value) {
  if (!stored.is_null()) read_field(stored, name, value.emplace());
}
template <class Part, class Value>
void read_field(const Json& stored, const std::string& name, std::optional<Part>& part, Value Part::*member) {
  if (stored.is_null()) return;
  if (!part) part.emplace();
  read_field(stored, name, (*part).*member);
}

/// Fails for edited or mixed states.
void require_consistent(const TrainState& s, const Json& json, int64_t step, const std::string& path) {
  if (step - s.sft.steps != s.rl.steps)
    fail(ExitCode::kBadInput, path, ": step is ", step, ", but sft_steps and rl_steps are ", s.sft.steps, " and ",
         s.rl.steps,
         "; expected their sum. Restore the file, or move this checkpoint away to resume from an older one, if there "
         "is one");
  const Json written = to_json(s);
  for (const auto& [name, value] : written.items())
    if (json.at(name).is_null() && !value.is_null())
      fail(ExitCode::kBadInput, path, ": ", name, " is null, but its related fields are not. Restore the file");
  for (const char* name : {"best_step", "last_evaluation", "last_sft_evaluation"})
    if (const Json& recorded = json.at(name); !recorded.is_null() && recorded.get<int64_t>() > step)
      fail(ExitCode::kBadInput, path, ": ", name, " is ", recorded.dump(), ", later than step, which is ", step,
           ". Restore the file");
}

}  // namespace

void TrainState::count_update(bool skipped_update, bool overflowed) {
  skipped += skipped_update ? 1 : 0;
  if (!overflowed) skipped_in_a_row = skipped_update ? skipped_in_a_row + 1 : 0;
}

bool TrainState::update_best(const Json& row, const std::string& metric) {
  const auto found = row.find(metric);
  if (found == row.end() || !found->is_number()) return false;
  const double value = found->get<double>();
  if (!std::isfinite(value) || (best && best->metric == metric && value <= best->value)) return false;
  best = BestEvaluation{metric, value, step()};
  return true;
}

void RewardWindow::add(double reward_mean, int64_t scored_prompts) {
  ++steps;
  if (scored_prompts == 0) return;
  prompts += scored_prompts;
  mean += (reward_mean - mean) * static_cast<double>(scored_prompts) / static_cast<double>(prompts);
}

Json to_json(const TrainState& state) {
  Json json = {{"phase", kPhaseNames[static_cast<int>(state.phase)]}, {"step", state.step()}};
  visit_fields(state, [&](const char* name, const auto&... field) { json[name] = field_json(field...); });
  return json;
}

TrainState state_from_json(const Json& json, const std::string& path) {
  TrainState state;
  int64_t step = 0;
  try {
    const Json& stored = json.at("phase");
    const std::string phase = stored.is_string() ? stored.get<std::string>() : format_short_json(stored);
    const auto found = std::find(std::begin(kPhaseNames), std::end(kPhaseNames), phase);
    if (found == std::end(kPhaseNames)) fail(ExitCode::kBadInput, path, ": unknown phase \"", phase, "\"");
    state.phase = static_cast<Phase>(found - std::begin(kPhaseNames));
    const auto read = [&](const char* name, auto&&... field) {
      if (!json.contains(name))
        fail(ExitCode::kBadInput, path, ": ", name, " is missing; the checkpoint was written by another version");
      read_field(json.at(name), path + ": " + name, field...);
    };
    read("step", step);
    visit_fields(state, read);
  } catch (const Json::exception& error) {
    fail(ExitCode::kBadInput, path, ": ", error.what(), "; the checkpoint was written by another version");
  }
  require_consistent(state, json, step, path);
  return state;
}

}  // namespace keel
