#include "keel/train/config/foreign_reward.h"

#include "keel/core/error.h"
#include "keel/train/config/foreign_names.h"

namespace keel {
namespace {

constexpr const char* kUsed = "algorithm.use_kl_in_reward";
constexpr const char* kCoefficient = "algorithm.kl_ctrl.kl_coef";
constexpr const char* kType = "algorithm.kl_ctrl.type";
constexpr const char* kTarget = "algorithm.kl_ctrl.target_kl";
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
    if (value == true && said(tree, section + ".len") == nullptr)
      fail(ExitCode::kBadConfiguration, "got true, but ", section, ".len, the tokens in which the penalty grows, is ",
           "not set; set it, or reward.overlong_buffer");
    return kSetsNothing;
  };
}

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
  for (const std::string section : {"reward_model.overlong_buffer", "reward_model.reward_kwargs.overlong_buffer_cfg",
                                    "reward.reward_kwargs.overlong_buffer_cfg"}) {  // DAPO's recipe, and verl since
    t.alias(section + ".enable", "reward.overlong_buffer", "verl", enabled(section), "see " + section + ".len");
    t.alias(section + ".len", "reward.overlong_buffer", "verl", where_enabled(section), "where enable is true");
    t.alias(section + ".penalty_factor", "reward.overlong_penalty", "verl", where_enabled(section),
            "where enable is true");
  }
}

}  // namespace keel
