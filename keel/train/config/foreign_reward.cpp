#include "keel/train/config/foreign_reward.h"

#include <algorithm>
#include <map>

#include "keel/core/error.h"
#include "keel/train/config/foreign_names.h"

namespace keel {
namespace {

constexpr const char* kUsed = "algorithm.use_kl_in_reward";
constexpr const char* kCoefficient = "algorithm.kl_ctrl.kl_coef";
constexpr const char* kType = "algorithm.kl_ctrl.type";
constexpr const char* kTarget = "algorithm.kl_ctrl.target_kl";
constexpr const char *kOurRewardWeight = "reference.kl_in_reward", *kOurLossWeight = "reference.kl_coefficient";
constexpr double kVerlsCoefficient = 0.001, kVerlsTarget = 0.1;

bool is_true(const ConfigTree& tree, const std::string& name) {
  const Json* value = said(tree, name);
  return value != nullptr && *value == true;
}

void require_flag(const Json& value) {
  if (!value.is_boolean()) fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted true or false");
}

Json use_kl_in_reward(const Json& value, const ConfigTree& tree, const OptionTable&) {
  require_flag(value);
  const bool elsewhere = said(tree, kCoefficient) != nullptr || said(tree, "reference.kl_in_reward") != nullptr;
  return value == false || elsewhere ? kSetsNothing : Json(kVerlsCoefficient);
}

/// What verl reads only where there is a KL in the rewards.
AliasConverter where_used(AliasConverter converter = nullptr) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    if (!is_true(tree, kUsed)) return kSetsNothing;
    return converter ? converter(value, tree, table) : value;
  };
}

Json target_by_default(const Json& value, const ConfigTree& tree, const OptionTable&) {
  const std::string type = word_of(value);
  if (type != "fixed" && type != "adaptive")
    fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted fixed or adaptive");
  const bool elsewhere = said(tree, kTarget) != nullptr || said(tree, "reference.kl_in_reward_target") != nullptr;
  return type == "fixed" || elsewhere ? kSetsNothing : Json(kVerlsTarget);
}

Json of_adaptive(const Json& value, const ConfigTree& tree, const OptionTable&) {
  return word_at(tree, kType) == "adaptive" ? value : kSetsNothing;
}

/// verl's soft penalty is there where `section` says so.
AliasConverter where_enabled(std::string section) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable&) -> Json {
    return is_true(tree, section + ".enable") ? value : kSetsNothing;
  };
}

AliasConverter enabled(std::string section) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable&) -> Json {
    require_flag(value);
    if (const Json* length = said(tree, section + ".len"); value == true && length != nullptr && *length == 0)
      fail(ExitCode::kBadConfiguration, "got true, but ", section,
           ".len, the tokens in which the penalty grows, is 0; ", "raise it, or set this to false");
    if (value == true && said(tree, section + ".len") == nullptr)
      fail(ExitCode::kBadConfiguration, "got true, but ", section, ".len, the tokens in which the penalty grows, is ",
           "not set; set it, or reward.overlong_buffer");
    return kSetsNothing;
  };
}

// The estimator of the KL, one name for both places ------------------------------------------------------------------

/// Of TRL's PPO and of OpenRLHF, whose KL is in the rewards unless it is said to be in the loss.
AliasConverter estimator_of_kl(bool of_reward) {
  return [=](const Json& value, const ConfigTree&, const OptionTable& table) -> Json {
    const bool in_reward = table.get(kOurRewardWeight) != 0, in_loss = table.get(kOurLossWeight) != 0;
    return (of_reward ? in_reward : in_loss || !in_reward) ? value : kSetsNothing;
  };
}

// Groups that are dropped --------------------------------------------------------------------------------------------

constexpr const char* kFilterGroups = "algorithm.filter_groups.enable";

/// verl reads it only where groups are filtered.
AliasConverter of_filtered_groups(AliasConverter converter) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable& table) -> Json {
    return is_true(tree, kFilterGroups) ? converter(value, tree, table) : kSetsNothing;
  };
}

constexpr const char* kSampledPrompts = "data.gen_batch_size";

/// How many of our batches one of verl's is, which may be larger than what a step learns from; 0: no whole number.
int64_t batches_in_one(const Json& prompts, const OptionTable& table) {
  const int64_t of_step = table.get("train.prompts_per_step").get<int64_t>();
  const int64_t sampled = prompts.is_number_integer() ? prompts.get<int64_t>() : 0;
  return sampled < 1 || sampled % of_step != 0 ? 0 : sampled / of_step;
}

Json most_batches(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  if (value.is_number() && value <= 0)
    fail(
        ExitCode::kBadConfiguration, "got ", value.dump(),
        ", which is no limit there: a model that solves everything would be sampled for ever; set rollout.max_batches");
  const Json* sampled = said(tree, kSampledPrompts);
  if (sampled == nullptr || !value.is_number_integer() || value > 65536) return value;
  return value.get<int64_t>() * std::clamp<int64_t>(batches_in_one(*sampled, table), 1, 65536);
}

bool takes_kl_off(const ConfigTree& tree, const OptionTable& table) {
  if (on_command_line(tree, kOurRewardWeight) || !is_true(tree, kUsed)) return table.get(kOurRewardWeight) != 0;
  const Json* coefficient = said(tree, kCoefficient);
  return coefficient == nullptr || *coefficient != 0;
}

/// Whether the reward is more than what one function says.
bool is_a_sum(const ConfigTree& tree, const OptionTable& table) {
  return table.get("reward.overlong_buffer") != 0 || table.get("reward.functions").size() > 1 ||
         std::any_of(kVerlOverlong.begin(), kVerlOverlong.end(),
                     [&](const std::string& section) { return is_true(tree, section + ".enable"); });
}

/// Whether the reward is 1 or 0, right or wrong.
bool is_accuracy(const OptionTable& table) {
  const Json functions = table.get("reward.functions");
  const bool is_default = functions.empty() && !table.get("data.files").empty();  // a task has its own
  return is_default || functions == Json::array({"math"});
}

/// Groups are compared by the rewards of all functions together: verl's seq_reward. Its seq_final_reward is after the
/// KL, its score before the penalty.
Json metric_of_groups(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  const std::string word = word_of(value);
  if (value.is_null() || word == "seq_reward" || (word == "seq_final_reward" && !takes_kl_off(tree, table)) ||
      ((word == "score" || (word == "acc" && is_accuracy(table))) && !is_a_sum(tree, table)))
    return kSetsNothing;
  fail(ExitCode::kBadConfiguration, "got ", word, ", but groups are dropped where their rewards are all equal: ",
       "everything in reward.functions added up, with the overlong penalty, before the KL; set it to seq_reward, or ",
       "remove it");
}

/// Of a larger batch verl, too, takes the first groups that are left.
Json prompts_sampled(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  const Json prompts = table.get("train.prompts_per_step");
  if (value.is_null() || value == prompts) return kSetsNothing;
  if (is_true(tree, kFilterGroups) && batches_in_one(value, table) > 0) return kSetsNothing;
  fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", but every batch that is sampled for a step has ",
       "train.prompts_per_step prompts, ", prompts.dump(), ", further ones in place of dropped groups too; remove it");
}

// Functions ----------------------------------------------------------------------------------------------------------

/// trl.rewards has the first three, open-r1's registry the next two; a dotted name is a function of a Python module.
Json functions_of_trl(const Json& value, const ConfigTree&, const OptionTable&) {
  static const std::map<std::string, std::string> kFunctions = {{"accuracy_reward", "math"},
                                                                {"reasoning_accuracy_reward", "math"},
                                                                {"think_format_reward", "tags:think,*"},
                                                                {"accuracy", "math"},
                                                                {"format", "tags:think,answer"}};
  if (value.is_null()) return kSetsNothing;
  Json functions = Json::array();
  for (const Json& entry : value.is_array() ? value : Json::array({value})) {
    std::string name = word_of(entry);
    const auto known = kFunctions.find(name);
    const size_t dot = name.find_last_of('.');
    if (known != kFunctions.end()) {
      functions.push_back(known->second);
    } else if (name.ends_with(".py")) {
      fail(ExitCode::kBadConfiguration, "got ", name, "; a file of Python functions is written python:", name,
           " in reward.functions: set that, and remove it");
    } else if (name.find(':') == std::string::npos && dot != std::string::npos && dot + 1 < name.size()) {
      std::replace(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(dot), '.', '/');
      functions.push_back("python:" + name.substr(0, dot) + ".py:" + name.substr(dot + 1));
    } else {
      fail(ExitCode::kBadConfiguration, "got ", word_of(entry), "; functions are named in reward.functions: ",
           "\"python:FILE.py:FUNCTION\" for your own, or a built-in one (docs/rewards.md): set that, and remove it");
    }
  }
  return functions;
}

/// verl names a file and a function apart: the function's name is at `name`.
AliasConverter custom_reward(std::string name) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable&) -> Json {
    if (!value.is_string() || value.get<std::string>().empty()) return kSetsNothing;  // verl's default: none
    const Json* function = find_value(tree, name);
    std::string text = "python:" + value.get<std::string>();
    if (function != nullptr && function->is_string()) text += ":" + function->get<std::string>();
    return Json::array({text});
  };
}

/// OpenRLHF's is the address of a server or a Python file.
Json remote_reward(const Json& value, const ConfigTree&, const OptionTable&) {
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  if (text.starts_with("http")) return Json::array({text});
  if (text.ends_with(".py")) return Json::array({"python:" + text});
  fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted the address of a server or a Python file; set ",
       "reward.functions");
}

/// Read with the file it belongs to.
Json part_of_another(const Json&, const ConfigTree&, const OptionTable&) { return kSetsNothing; }

}  // namespace

/// "abs" is none of ours.
Json kl_estimator_word(const Json& value, const ConfigTree&, const OptionTable&) {
  const std::string word = word_of(value);
  if (word == "kl" || word == "k1") return "k1";
  if (word == "mse" || word == "k2") return "k2";
  if (word == "low_var_kl" || word == "k3") return "k3";
  fail(ExitCode::kBadConfiguration, "got \"", word, "\", wanted kl, mse or low_var_kl; set reference.estimator or ",
       "reference.kl_in_reward_estimator to k1, k2 or k3");
}

void add_reward_functions(OptionTable& t) {
  t.alias("reward_weights", "reward.weights", "TRL", unless_null, "null is 1 for each");
  t.alias("reward_funcs", "reward.functions", "TRL", functions_of_trl,
          "accuracy_reward is math, think_format_reward tags:think,*; package.module.function is "
          "python:package/module.py:function");
  for (const std::string& section : kVerlRewardFunction) {
    t.alias(section + ".path", "reward.functions", "verl", custom_reward(section + ".name"), "python:PATH:NAME");
    t.alias(section + ".name", "reward.functions", "verl", part_of_another, "see " + section + ".path");
  }
  t.alias("remote_rm_url", "reward.functions", "OpenRLHF", remote_reward, "an address, or python:FILE.py");
}

void add_reward_aliases(OptionTable& t) {
  const std::string where = "where use_kl_in_reward is true", adaptive = where + " and kl_ctrl.type adaptive";
  t.alias(kUsed, "reference.kl_in_reward", "verl", use_kl_in_reward,
          "true without kl_ctrl.kl_coef is verl's default, 0.001; false is none");
  t.alias(kCoefficient, "reference.kl_in_reward", "verl", where_used(), where);
  t.alias("algorithm.kl_penalty", "reference.kl_in_reward_estimator", "verl", where_used(kl_estimator_word),
          where + "; kl is k1, mse is k2, low_var_kl is k3");
  t.alias(kType, "reference.kl_in_reward_target", "verl", where_used(target_by_default),
          where + "; adaptive without target_kl is verl's default, 0.1");
  t.alias(kTarget, "reference.kl_in_reward_target", "verl", where_used(of_adaptive), adaptive);
  t.alias("algorithm.kl_ctrl.horizon", "reference.kl_in_reward_horizon", "verl", where_used(of_adaptive), adaptive);
  for (const std::string& section : kVerlOverlong) {
    t.alias(section + ".enable", "reward.overlong_buffer", "verl", enabled(section), "see " + section + ".len");
    t.alias(section + ".len", "reward.overlong_buffer", "verl", where_enabled(section), "where enable is true");
    t.alias(section + ".penalty_factor", "reward.overlong_penalty", "verl", where_enabled(section),
            "where enable is true");
  }
  t.alias(kFilterGroups, "rollout.dynamic_sampling", "verl");
  t.alias("algorithm.filter_groups.max_num_gen_batches", "rollout.max_batches", "verl",
          of_filtered_groups(most_batches),
          "where enable is true, times gen_batch_size / train_batch_size; 0, no limit, is refused");
  t.alias("algorithm.filter_groups.metric", "rollout.dynamic_sampling", "verl", of_filtered_groups(metric_of_groups),
          "seq_reward says what holds anyway, and so do seq_final_reward without a KL in the reward, score with one "
          "function and no penalty, and acc where that is math; all else is refused where enable is true");
  t.alias(kSampledPrompts, "train.prompts_per_step", "verl", prompts_sampled,
          "sets nothing where it is train_batch_size or, with filter_groups, a multiple of it; all else is refused");
  t.alias("dynamic_filtering", "rollout.dynamic_sampling", "OpenRLHF");
  t.alias("kl_estimator", "reference.kl_in_reward_estimator", "TRL, OpenRLHF", estimator_of_kl(/*of_reward=*/true),
          "where reference.kl_in_reward is above 0");
  t.alias("kl_estimator", "reference.estimator", "TRL, OpenRLHF", estimator_of_kl(/*of_reward=*/false),
          "where reference.kl_coefficient is above 0, or neither is");
}

}  // namespace keel
