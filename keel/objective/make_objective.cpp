#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/core/options/limits.h"
#include "keel/core/options/options.h"
#include "keel/core/strings.h"
#include "keel/objective/methods.h"

namespace keel {
namespace {

bool has_number_parameter(const TrustRegion& region, const std::string& parameter) {
  for (const auto& [name, value] : number_parameters(region))
    if (name == parameter) return true;
  return false;
}

/// Suggests a fix for a key that the method does not have: lists its parameters and shows how to set a threshold.
std::string unused_key_hint(const Method& method, const std::string& option, double value) {
  const std::vector<std::string> names = parameter_names(method.region);
  std::ostringstream text;
  text << (names.empty() ? "; it has none" : "; it has: ") << joined(names) << ". ";
  for (const auto& [name, number] : number_parameters(method.region)) {
    if (option == "ratio_cap" || name == "ratio_cap" || name == "dual") continue;  // caps are not thresholds
    text << "Set a parameter by its name, such as objective.parameters='[\"" << name << "=" << value << "\"]'. ";
    break;
  }
  text << "Remove the key or choose another method";
  return text.str();
}

/// Sets a parameter that has its own configuration key. Errors name the key.
void set_from_key(Method& method, const std::string& option, const std::string& parameter, const Json& value) {
  try {
    set_parameter(method.region, method.name, parameter, value);
  } catch (const Error& error) {
    fail(error.code(), "objective.", option, ": ", error.what());
  }
}

void set_number(Method& method, const char* option, const std::string& parameter, const std::optional<double>& value) {
  if (!value) return;
  if (!has_number_parameter(method.region, parameter))
    fail(ExitCode::kBadConfiguration, "objective.", option, " is ", *value, ", but the method ", method.name,
         " has no parameter \"", parameter, "\"", unused_key_hint(method, option, *value));
  set_from_key(method, option, parameter, std::isinf(*value) ? Json("none") : Json(*value));
}

/// Sets the only threshold of the region, or both of its thresholds.
void set_delta(Method& method, const ObjectiveOptions& options) {
  if (has_number_parameter(method.region, "delta")) return set_number(method, "delta", "delta", options.delta);
  if (options.delta && options.delta_low && options.delta_high)
    fail(ExitCode::kBadConfiguration, "objective.delta is ", *options.delta,
         " but has no effect: objective.delta_low, ", *options.delta_low, ", and objective.delta_high, ",
         *options.delta_high, ", set both thresholds of ", method.name, ". Remove one of the three");
  if (options.delta && !has_number_parameter(method.region, "low") && !has_number_parameter(method.region, "high"))
    fail(ExitCode::kBadConfiguration, "objective.delta is ", *options.delta, ", but the method ", method.name,
         " has no threshold \"delta\", \"low\" or \"high\"", unused_key_hint(method, "delta", *options.delta));
  for (const char* threshold : {"low", "high"})
    if (has_number_parameter(method.region, threshold)) set_number(method, "delta", threshold, options.delta);
}

void set_anchor(Method& method, const std::string& anchor) {
  const std::vector<std::string> names = parameter_names(method.region);
  if (std::find(names.begin(), names.end(), "anchor") == names.end())
    fail(ExitCode::kBadConfiguration, "objective.anchor is \"", anchor, "\", but the method ", method.name,
         " supports one anchor only; its parameters: ", joined(names), ". Remove the key or choose another method");
  set_from_key(method, "anchor", "anchor", anchor);
}

/// Maps each parameter that an option has set to the key of that option.
std::map<std::string, std::string> parameters_set_by_keys(const Method& method, const ObjectiveOptions& options) {
  std::map<std::string, std::string> keys;
  if (options.delta && has_number_parameter(method.region, "delta")) keys["delta"] = "delta";
  if (options.delta && !has_number_parameter(method.region, "delta")) keys["low"] = keys["high"] = "delta";
  if (options.delta_low) keys["low"] = "delta_low";
  if (options.delta_high) keys["high"] = "delta_high";
  if (options.anchor) keys["anchor"] = "anchor";
  if (options.ratio_cap) keys["ratio_cap"] = "ratio_cap";
  return keys;
}

/// Applies objective.parameters. `keys` maps parameters that are already set to their keys.
void apply_assignments(Method& method, const std::vector<std::string>& assignments,
                       std::map<std::string, std::string>& keys) {
  for (const std::string& assignment : assignments) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos)
      fail(ExitCode::kBadConfiguration, "objective.parameters has \"", assignment, "\"; expected name=value");
    const std::string_view view = assignment;
    const std::string name(trimmed(view.substr(0, equals))), text(trimmed(view.substr(equals + 1)));
    const auto [key, is_new] = keys.emplace(parameter_name(name), "parameters");
    if (!is_new)
      fail(ExitCode::kBadConfiguration, "objective.parameters has \"", assignment, "\", and objective.", key->second,
           " sets the same parameter; keep one of them");
    try {
      set_parameter(method.region, method.name, name, try_parse_json(text).value_or(Json(text)));
    } catch (const Error& error) {
      fail(error.code(), "objective.parameters has \"", assignment, "\": ", error.what());
    }
  }
}

/// Fails if a parameter contradicts another one or the maximum completion length. `keys` maps parameters to their keys.
void check_method_parameters(const Method& method, const std::map<std::string, std::string>& keys,
                             double max_completion_length) {
  auto found = check_parameters(method.region);
  if (!found) found = check_length(method.region, max_completion_length);
  if (found) {
    const auto key = keys.find(found->parameter);
    fail(ExitCode::kBadConfiguration, "objective.", key == keys.end() ? "parameters" : key->second, ": ", method.name,
         ": ", found->reason);
  }
}

/// Fails if the method cannot use the advantages, or ignores a setting.
void check_compatibility(const Method& method, const ObjectiveOptions& options, const RewardKlPenalty& reward_kl) {
  if (method.advantage == "gae" && requirements(method.region).scope == Scope::kSequence)
    fail(ExitCode::kBadConfiguration, "objective.advantage is \"gae\", which gives every token its own advantage, but ",
         "the method ", method.name, " decides per sequence; choose group_mean, grpo, rloo, reinforce_pp or ",
         "reinforce_pp_baseline, or a method that decides per token, such as ppo_gae or dppo_tv");
  if (method.advantage == "reinforce_pp" && reward_kl.coefficient > 0 &&
      requirements(method.region).scope == Scope::kSequence)
    fail(ExitCode::kBadConfiguration, "reference.kl_in_reward is ", reward_kl.coefficient,
         ", so the advantage reinforce_pp differs between tokens, but the method ", method.name,
         " decides per sequence; choose objective.advantage=reinforce_pp_baseline, group_mean, grpo or rloo, "
         "or set ",
         "reference.kl_coefficient, which adds the KL to the loss");
  if ((method.advantage == "maxrl" || method.advantage == "gdpo") && reward_kl.coefficient > 0)
    fail(ExitCode::kBadConfiguration, "reference.kl_in_reward is ", reward_kl.coefficient, ", but the advantage ",
         method.advantage,
         " is not defined for rewards with a penalty; choose another objective.advantage, or set "
         "reference.kl_coefficient, which adds the KL to the loss");
  if (options.horizon && method.aggregation != "seq_mean_token_sum_norm")
    fail(ExitCode::kBadConfiguration, "objective.horizon is ", *options.horizon, ", but the aggregation ",
         method.aggregation, " of ", options.aggregation ? "objective.aggregation" : "the method " + method.name,
         " does not divide by a horizon; remove the key, or set objective.aggregation=seq_mean_token_sum_norm");
}

/// Fails if the score is to be centered, but the weights of the tokens that were not sampled are unknown.
void check_centering(const Method& method, const std::string& centering) {
  if (centering == "none" || token_weights(method.region)) return;
  fail(ExitCode::kBadConfiguration, "objective.centering is \"", centering, "\", but the method ", method.name,
       " cannot be centered: ", no_token_weights_reason(method.region),
       ". Set objective.centering=none, or choose a method such as dppo_tv, drpo, pg_tis or grpo");
}

/// Removes target_kept, which belongs to no region, from objective.parameters and returns its value.
std::optional<double> take_target_kept(std::vector<std::string>& assignments) {
  const auto found = std::ranges::find_if(
      assignments, [](const std::string& assignment) { return trimmed(assignment).starts_with("target_kept="); });
  if (found == assignments.end()) return std::nullopt;
  const std::optional<Json> fraction = try_parse_json(std::string(trimmed(found->substr(found->find('=') + 1))));
  if (!fraction || !fraction->is_number() || *fraction <= 0 || *fraction > 1)
    fail(ExitCode::kBadConfiguration, "objective.parameters has \"", *found,
         "\"; expected a fraction above 0 and at most 1");
  assignments.erase(found);
  return fraction->get<double>();
}

/// Fails if target_kept is set but the method has no thresholds to adapt.
void check_target_kept(const Method& method, const std::optional<double>& target_kept) {
  if (!target_kept) return;
  const bool has_both = has_number_parameter(method.region, "low") && has_number_parameter(method.region, "high");
  if (!has_both || !properties(method.region).has_boundary)
    fail(ExitCode::kBadConfiguration, "objective.parameters has target_kept=", *target_kept, ", but the method ",
         method.name,
         has_both ? " has no boundary, so no token is outside it" : " has no thresholds \"low\" and \"high\" to adapt",
         "; it has: ", joined(parameter_names(method.region)),
         ". Remove it, or choose a method such as dppo_tv or grpo");
  for (const auto& [name, value] : number_parameters(method.region))
    if ((name == "low" || name == "high") && !(value > 0 && std::isfinite(value)))
      fail(ExitCode::kBadConfiguration, "objective.parameters: target_kept adapts the threshold \"", name, "\" of ",
           method.name, ", which starts at ", value,
           "; expected a finite number above 0. Set it, or remove target_kept");
}

}  // namespace

void ReferenceOptions::describe(OptionTable& table) {
  table.add("kl_coefficient", kl_coefficient,
            "Coefficient of the per-token KL divergence to the reference, the policy at the start of RL; 0 turns it "
            "off.",
            at_least(0));
  table.add("estimator", estimator,
            "KL estimator from the sampled token, differentiated as written: k3 is never negative, the gradient of k1 "
            "has mean 0.",
            one_of({"k1", "k2", "k3"}));
  table.add("kl_in_reward", kl_in_reward,
            "Coefficient of the same KL as a penalty that is subtracted from the reward of every token. It is "
            "estimated before the updates of the step; 0 turns it off.",
            at_least(0));
  table.add("kl_in_reward_estimator", kl_in_reward_estimator, "KL estimator of that penalty.",
            one_of({"k1", "k2", "k3"}));
  table.add("kl_in_reward_target", kl_in_reward_target,
            "Target KL per token: after each step kl_in_reward grows if the KL was above the target and shrinks if it "
            "was below; null keeps it constant.",
            above(0));
  table.add("kl_in_reward_horizon", kl_in_reward_horizon,
            "Adaptation time: over this many completions, kl_in_reward changes by the relative KL error, at most 20 %; "
            "null means 10000.",
            above(0));
}

void ObjectiveOptions::describe(OptionTable& table) {
  table.add("method", method, "Training method; `keel methods` lists them.", not_empty());
  table.add("delta", delta,
            "Threshold of the trust region, or both thresholds at once; null means the default of the method.",
            above(0));
  table.add("delta_low", delta_low, "Threshold for negative advantages; null means delta.", above(0));
  table.add("delta_high", delta_high, "Threshold for positive advantages; null means delta.", above(0));
  table.add("anchor", anchor,
            "Log-probs that the trust region compares the policy with: those of the sampler, or those that the "
            "trainer recomputes; null means the default of the method.",
            one_of({"behavior", "recomputed"}));
  table.add("ratio_cap", ratio_cap,
            "Upper bound of the importance ratio, or none for no bound; null means the default of the method.",
            above(0).or_none());
  table.add("parameters", parameters,
            "Other parameters of the method, each as name=value; the value none means no limit. target_kept=0.99 "
            "adapts the thresholds after each step so that this fraction of tokens stays inside the trust region.");
  table.add("advantage", advantage,
            "Advantage estimator; null means the default of the method. gae needs a critic (critic.body).",
            one_of({"group_mean", "grpo", "rloo", "maxrl", "batch_mean", "gdpo", "reinforce_pp",
                    "reinforce_pp_baseline", "gae"}));
  table.add(
      "advantage_eps", advantage_eps,
      "Constant that grpo and gdpo add to the standard deviation of the rewards of a group; null means 1e-6, as in "
      "verl. TRL uses 1e-4.",
      at_least(0));
  table.add(
      "aggregation", aggregation, "How the token losses are averaged; null means the default of the method.",
      one_of({"token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm", "prompt_mean"}));
  table.add("horizon", horizon,
            "Constant divisor of seq_mean_token_sum_norm; null means the maximum completion length.", above(0));
  table.add("entropy_coefficient", entropy_coefficient,
            "Coefficient of the per-token entropy bonus; 0 turns it off, and a negative value penalises entropy.");
  table.add("centering", centering,
            "Score centering: subtracts the mean gradient that the weights of the method would have over all tokens. "
            "topk reads the 128 most likely tokens of the sampler, exact the whole vocabulary from its hidden states.",
            one_of({"none", "topk", "exact"}));
}

Objective make_objective(const ObjectiveOptions& options, double max_completion_length,
                         const ReferenceOptions& reference) {
  Objective objective;
  objective.advantage_eps = options.advantage_eps.value_or(kAdvantageEps);
  objective.length_divisor = options.horizon.value_or(max_completion_length);
  objective.entropy_coefficient = options.entropy_coefficient;
  objective.kl_coefficient = reference.kl_coefficient;
  objective.kl_estimator = parse_kl_estimator(reference.estimator);
  objective.reward_kl = {.coefficient = reference.kl_in_reward,
                         .estimator = parse_kl_estimator(reference.kl_in_reward_estimator),
                         .target = reference.kl_in_reward_target,
                         .horizon = reference.kl_in_reward_horizon.value_or(RewardKlPenalty().horizon)};
  std::vector<std::string> assignments = options.parameters;
  objective.target_kept = take_target_kept(assignments);
  Method& method = objective.method;
  method = find_method(options.method, "objective.method: unknown method");
  set_delta(method, options);
  set_number(method, "delta_low", "low", options.delta_low);
  set_number(method, "delta_high", "high", options.delta_high);
  set_number(method, "ratio_cap", "ratio_cap", options.ratio_cap);
  if (options.anchor) set_anchor(method, *options.anchor);
  std::map<std::string, std::string> keys = parameters_set_by_keys(method, options);
  apply_assignments(method, assignments, keys);
  check_method_parameters(method, keys, max_completion_length);
  if (options.advantage) method.advantage = *options.advantage;
  if (options.aggregation) method.aggregation = *options.aggregation;
  check_compatibility(method, options, objective.reward_kl);
  check_target_kept(method, objective.target_kept);
  check_centering(method, options.centering);
  objective.centering = parse_centering(options.centering);
  return objective;
}

Requirements Objective::requirements() const {
  Requirements needs = keel::requirements(method.region);
  needs.reference_logp = needs.reference_logp || kl_coefficient > 0 || reward_kl.coefficient > 0;
  needs.recomputed_logp = needs.recomputed_logp || reward_kl.coefficient > 0;
  needs.value = needs.value || method.advantage == "gae";
  // A method with other needs of these kinds cannot be centered.
  if (centering == Centering::kTopK) needs.top_k = kCenteringTopK;
  if (centering == Centering::kExact) needs.hidden_states = true;
  return needs;
}

}  // namespace keel
