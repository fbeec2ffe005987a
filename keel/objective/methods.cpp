#include "keel/objective/methods.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/core/nearest.h"
#include "keel/core/options/limits.h"
#include "keel/core/options/options.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

bool has_number(const TrustRegion& region, const std::string& parameter) {
  for (const auto& [name, value] : number_parameters(region))
    if (name == parameter) return true;
  return false;
}

/// What to do about a key that the method has no use for: what it does have, and how a threshold is set.
std::string way_out(const Method& method, const std::string& option, double value) {
  const std::vector<std::string> names = parameter_names(method.region);
  std::ostringstream text;
  text << (names.empty() ? "; it has none" : "; it has: ") << joined(names) << ". ";
  for (const auto& [name, number] : number_parameters(method.region)) {
    if (option == "ratio_cap" || name == "ratio_cap" || name == "dual") continue;  // a cap is no threshold
    text << "Set what you mean by its name, such as objective.parameters='[\"" << name << "=" << value << "\"]'. ";
    break;
  }
  text << "Remove the key or choose another method";
  return text.str();
}

/// Sets a parameter that has a key of its own; what is wrong with the value is said of the key.
void set_by_key(Method& method, const std::string& option, const std::string& parameter, const Json& value) {
  try {
    set_parameter(method.region, method.name, parameter, value);
  } catch (const Error& error) {
    fail(error.code(), "objective.", option, ": ", error.what());
  }
}

void set_number(Method& method, const char* option, const std::string& parameter, const std::optional<double>& value) {
  if (!value) return;
  if (!has_number(method.region, parameter))
    fail(ExitCode::kBadConfiguration, "objective.", option, " is ", *value, ", but the method ", method.name,
         " has no parameter \"", parameter, "\"", way_out(method, option, *value));
  set_by_key(method, option, parameter, *value);
}

/// `delta` is the region's one threshold, or both of two.
void set_delta(Method& method, const ObjectiveOptions& options) {
  if (has_number(method.region, "delta")) return set_number(method, "delta", "delta", options.delta);
  if (options.delta && options.delta_low && options.delta_high)
    fail(ExitCode::kBadConfiguration, "objective.delta is ", *options.delta,
         " and would have no effect: objective.delta_low, ", *options.delta_low, ", and objective.delta_high, ",
         *options.delta_high, ", set both thresholds of ", method.name, ". Remove one of the three");
  if (options.delta && !has_number(method.region, "low") && !has_number(method.region, "high"))
    fail(ExitCode::kBadConfiguration, "objective.delta is ", *options.delta, ", but the method ", method.name,
         " has no threshold \"delta\", \"low\" or \"high\"", way_out(method, "delta", *options.delta));
  for (const char* threshold : {"low", "high"})
    if (has_number(method.region, threshold)) set_number(method, "delta", threshold, options.delta);
}

void set_anchor(Method& method, const std::string& word) {
  const std::vector<std::string> names = parameter_names(method.region);
  if (std::find(names.begin(), names.end(), "anchor") == names.end())
    fail(ExitCode::kBadConfiguration, "objective.anchor is \"", word, "\", but the method ", method.name,
         " has one anchor only; it has: ", joined(names), ". Remove the key or choose another method");
  set_by_key(method, "anchor", "anchor", word);
}

/// The parameters of the region that have a key of their own, and that key, when it is set.
std::map<std::string, std::string> set_by_keys(const Method& method, const ObjectiveOptions& options) {
  std::map<std::string, std::string> keys;
  if (options.delta && has_number(method.region, "delta")) keys["delta"] = "delta";
  if (options.delta && !has_number(method.region, "delta")) keys["low"] = keys["high"] = "delta";
  if (options.delta_low) keys["low"] = "delta_low";
  if (options.delta_high) keys["high"] = "delta_high";
  if (options.anchor) keys["anchor"] = "anchor";
  if (options.ratio_cap) keys["ratio_cap"] = "ratio_cap";
  return keys;
}

/// Applies objective.parameters; `keys` are the parameters that other keys have set.
void set_by_name(Method& method, const std::vector<std::string>& assignments,
                 std::map<std::string, std::string>& keys) {
  for (const std::string& assignment : assignments) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos)
      fail(ExitCode::kBadConfiguration, "objective.parameters has \"", assignment, "\"; expected name=value");
    const std::string_view whole = assignment;
    const std::string name(trimmed(whole.substr(0, equals))), text(trimmed(whole.substr(equals + 1)));
    const auto [key, fresh] = keys.emplace(parameter_name(name), "parameters");
    if (!fresh)
      fail(ExitCode::kBadConfiguration, "objective.parameters has \"", assignment, "\", and objective.", key->second,
           " sets the same parameter; keep one of them");
    try {
      set_parameter(method.region, method.name, name, try_parse_json(text).value_or(Json(text)));
    } catch (const Error& error) {
      fail(error.code(), "objective.parameters has \"", assignment, "\": ", error.what());
    }
  }
}

/// `keys` says where each parameter was set; no completion has more than `longest` tokens.
void refuse_contradictions(const Method& method, const std::map<std::string, std::string>& keys, double longest) {
  auto found = check_parameters(method.region);
  if (!found) found = check_length(method.region, longest);
  if (found) {
    const auto key = keys.find(found->parameter);
    fail(ExitCode::kBadConfiguration, "objective.", key == keys.end() ? "parameters" : key->second, ": ", method.name,
         ": ", found->reason);
  }
}

/// Advantages that the method cannot use, or settings that it would not read.
void refuse_what_has_no_effect(const Method& method, const ObjectiveOptions& options,
                               const RewardKlPenalty& reward_kl) {
  if (method.advantage == "gae" && requirements(method.region).scope == Scope::kSequence)
    fail(ExitCode::kBadConfiguration, "objective.advantage is \"gae\", which gives every token its own advantage, but ",
         "the method ", method.name, " judges whole sequences; choose group_mean, grpo, rloo, reinforce_pp or ",
         "reinforce_pp_baseline, or a method that judges tokens, such as ppo_gae or dppo_tv");
  if (method.advantage == "reinforce_pp" && reward_kl.coefficient > 0 &&
      requirements(method.region).scope == Scope::kSequence)
    fail(ExitCode::kBadConfiguration, "reference.kl_in_reward is ", reward_kl.coefficient,
         ", with which the advantage reinforce_pp gives every token its own, but the method ", method.name,
         " judges whole sequences; choose objective.advantage=reinforce_pp_baseline, group_mean, grpo or rloo, or set ",
         "reference.kl_coefficient, which adds the KL to the loss");
  if (options.horizon && method.aggregation != "seq_mean_token_sum_norm")
    fail(ExitCode::kBadConfiguration, "objective.horizon is ", *options.horizon, ", but the aggregation ",
         method.aggregation, " of ", options.aggregation ? "objective.aggregation" : "the method " + method.name,
         " divides by no horizon; remove the key, or set objective.aggregation=seq_mean_token_sum_norm");
}

/// Takes target_kept, which no region has, out of objective.parameters.
std::optional<double> take_target_kept(std::vector<std::string>& assignments) {
  const auto found = std::ranges::find_if(
      assignments, [](const std::string& assignment) { return trimmed(assignment).starts_with("target_kept="); });
  if (found == assignments.end()) return std::nullopt;
  const std::optional<Json> share = try_parse_json(std::string(trimmed(found->substr(found->find('=') + 1))));
  if (!share || !share->is_number() || *share <= 0 || *share > 1)
    fail(ExitCode::kBadConfiguration, "objective.parameters has \"", *found,
         "\"; expected a share above 0 and at most 1");
  assignments.erase(found);
  return share->get<double>();
}

/// A threshold that moves by itself needs tokens that it holds back.
void check_adaptation(const Method& method, const std::optional<double>& target_kept) {
  if (!target_kept) return;
  const bool has_both = has_number(method.region, "low") && has_number(method.region, "high");
  if (!has_both || !properties(method.region).has_boundary)
    fail(ExitCode::kBadConfiguration, "objective.parameters has target_kept=", *target_kept, ", but the method ",
         method.name,
         has_both ? " leaves no token outside and holds none back" : " has no thresholds \"low\" and \"high\" to move",
         "; it has: ", joined(parameter_names(method.region)),
         ". Remove it, or choose a method such as dppo_tv or grpo");
  for (const auto& [name, value] : number_parameters(method.region))
    if ((name == "low" || name == "high") && !(value > 0 && std::isfinite(value)))
      fail(ExitCode::kBadConfiguration, "objective.parameters: target_kept moves the threshold \"", name, "\" of ",
           method.name, ", which starts at ", value,
           "; expected a finite number above 0. Set it, or remove target_kept");
}

/// A family's region is one of the table's.
template <class Family>
void add_family(std::vector<Method>& table, const std::vector<MethodRow<Family>>& rows) {
  for (const MethodRow<Family>& row : rows) {
    TrustRegion region = std::visit([](const auto& r) -> TrustRegion { return r; }, row.region);
    table.push_back({row.name, row.summary, row.equation, row.source, row.advantage, row.aggregation, region});
  }
}

/// What is said of known methods that are not in the table; their names are a letter away from others.
std::string unsupported_method_hint(const std::string& name) {
  for (const char* of_preferences : {"dpo", "kto", "orpo", "rpo", "cpo", "simpo"})
    if (name == of_preferences) return "it learns from preferences, and the methods here from rewards; ";
  for (const char* other : {"trpo", "vapo", "opo", "remax"})
    if (name == other) return "it is a method of its own, which is not here; ";
  for (const char* advantage : {"rloo", "reinforce_pp", "reinforce_pp_baseline", "group_mean", "gae"})
    if (name == advantage)
      return "it is a way to advantages: set objective.advantage=" + name + " beside a method, such as ppo; ";
  for (const char* plus_plus : {"reinforce++", "reinforce_plus_plus"})
    if (name == plus_plus) return "it is a way to advantages: set objective.advantage=reinforce_pp beside ppo; ";
  if (name == "reinforce") return "it is pg here, and REINFORCE++ is objective.advantage=reinforce_pp; ";
  return "";
}

/// A short name with another letter is another method; typos are missing or swapped letters.
std::optional<std::string> nearest_method(const std::string& name, std::vector<std::string> names) {
  constexpr size_t kShort = 4;
  const auto is_another = [&](const std::string& known) {
    return known.size() <= name.size() && !std::is_permutation(known.begin(), known.end(), name.begin(), name.end());
  };
  if (name.size() <= kShort) std::erase_if(names, is_another);
  return nearest_name(name, names);
}

}  // namespace

void ReferenceOptions::describe(OptionTable& table) {
  table.add("kl_coefficient", kl_coefficient,
            "Weight of the KL divergence to the policy as it is when RL starts, on every token; 0 means none.",
            at_least(0));
  table.add("estimator", estimator,
            "How the KL is estimated from the sampled token, with gradient as written; k3 is never negative, k1 has no "
            "pull on average.",
            one_of({"k1", "k2", "k3"}));
  table.add("kl_in_reward", kl_in_reward,
            "Weight of the same KL in the rewards instead: this much of it is taken off the reward of every token, as "
            "estimated before the step's updates; 0 means none.",
            at_least(0));
  table.add("kl_in_reward_estimator", kl_in_reward_estimator, "How that KL is estimated.", one_of({"k1", "k2", "k3"}));
  table.add("kl_in_reward_target", kl_in_reward_target,
            "KL of a token that kl_in_reward is moved to keep: after each step it grows where the KL was above, and "
            "shrinks where it was below; null means that it stays.",
            above(0));
  table.add("kl_in_reward_horizon", kl_in_reward_horizon,
            "How slowly it moves: completions in which it changes by as much as the KL is off, which counts as 20 % at "
            "most; null means 10000.",
            above(0));
}

void ObjectiveOptions::describe(OptionTable& table) {
  table.add("method", method, "The row of the table of methods to train with; `keel methods` lists them.", not_empty());
  table.add("delta", delta, "The trust region's threshold, or both of two at once; null means the method's own.",
            above(0));
  table.add("delta_low", delta_low, "Threshold for negative advantages; null means delta.", above(0));
  table.add("delta_high", delta_high, "Threshold for positive advantages; null means delta.", above(0));
  table.add(
      "anchor", anchor,
      "Whom the region measures the policy against: the sampler's log-probs, or the trainer's own recomputation of "
      "them; null means the method's own.",
      one_of({"behavior", "recomputed"}));
  table.add("ratio_cap", ratio_cap, "Largest importance ratio; null means the method's own.", above(0));
  table.add("parameters", parameters,
            "The method's other parameters, each as name=value; null as a value means none. target_kept=0.99 moves "
            "the thresholds after each step towards this share of tokens inside the trust region.");
  table.add("advantage", advantage,
            "How rewards become advantages; null means the method's own. gae needs a critic (critic.body).",
            one_of({"group_mean", "grpo", "rloo", "reinforce_pp", "reinforce_pp_baseline", "gae"}));
  table.add("advantage_eps", advantage_eps,
            "What grpo adds to the standard deviation of a group's rewards before it divides by it; null means 1e-6, "
            "verl's number. TRL's is 1e-4.",
            at_least(0));
  table.add("aggregation", aggregation, "How tokens are averaged; null means the method's own.",
            one_of({"token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm"}));
  table.add("horizon", horizon, "Constant divisor of seq_mean_token_sum_norm; null means the longest completion.",
            above(0));
  table.add("entropy_coefficient", entropy_coefficient,
            "Weight of the entropy of the next-token distribution as a bonus, on every token; 0 means none, below 0 it "
            "is a penalty, which makes the policy more certain.");
}

const std::vector<Method>& methods() {
  static const std::vector<Method> table = [] {
    std::vector<Method> rows;
    const auto add = [&rows](const auto&... families) { (add_family(rows, families), ...); };
    add(dppo_rows(), drpo_rows(), ratio_clip_rows(), policy_gradient_rows(), soft_rows(), rollout_correction_rows(),
        sequence_level_rows(), cppo_rows(), batch_level_rows());
    return rows;
  }();
  return table;
}

const Method& find_method(const std::string& name, const std::string& what) {
  // The names of the papers and of the goldens, and names of other programs whose defaults differ.
  static const std::map<std::string, std::string> same{
      {"ppo_clip", "ppo"}, {"dppo_binary_tv", "dppo_tv"}, {"dppo_binary_kl", "dppo_kl"}};
  static const std::map<std::string, std::string> similar{{"vanilla", "ppo"}, {"geo_mean", "gmpo"}};
  const auto also = same.find(name);
  std::vector<std::string> names;
  for (const Method& row : methods()) {
    if (row.name == (also == same.end() ? name : also->second)) return row;
    names.push_back(row.name);
  }
  for (const auto& [other, row] : same) names.push_back(other);
  const auto elsewhere = similar.find(name);
  const std::optional<std::string> near =
      elsewhere == similar.end() ? nearest_method(lower_case(name), names) : elsewhere->second;
  std::string hint = unsupported_method_hint(lower_case(name));
  if (hint.empty() && near) hint = "did you mean " + *near + "? ";
  fail(ExitCode::kBadConfiguration, what, " \"", name, "\"; ", hint,
       "`keel methods`, in Python keel.methods(), lists the known ones");
}

TrustRegion make_region(const std::string& method, const Json& parameters) {
  TrustRegion region = find_method(method, "no method").region;
  std::map<std::string, std::string> given;
  for (const auto& [name, value] : parameters.items()) {
    const auto [first, fresh] = given.emplace(parameter_name(name), name);
    if (!fresh)
      fail(ExitCode::kBadConfiguration, method, "'s parameters \"", first->second, "\" and \"", name,
           "\" are the same one; keep one of them");
    set_parameter(region, method, name, value);
  }
  if (const auto found = check_parameters(region)) fail(ExitCode::kBadConfiguration, method, ": ", found->reason);
  return region;
}

Objective make_objective(const ObjectiveOptions& options, double default_horizon, const ReferenceOptions& reference) {
  Objective objective;
  objective.advantage_eps = options.advantage_eps.value_or(kAdvantageEps);
  objective.horizon = options.horizon.value_or(default_horizon);
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
  method = find_method(options.method, "objective.method is");
  set_delta(method, options);
  set_number(method, "delta_low", "low", options.delta_low);
  set_number(method, "delta_high", "high", options.delta_high);
  set_number(method, "ratio_cap", "ratio_cap", options.ratio_cap);
  if (options.anchor) set_anchor(method, *options.anchor);
  std::map<std::string, std::string> keys = set_by_keys(method, options);
  set_by_name(method, assignments, keys);
  refuse_contradictions(method, keys, default_horizon);
  if (options.advantage) method.advantage = *options.advantage;
  if (options.aggregation) method.aggregation = *options.aggregation;
  refuse_what_has_no_effect(method, options, objective.reward_kl);
  check_adaptation(method, objective.target_kept);
  return objective;
}

Requirements Objective::requirements() const {
  Requirements needs = keel::requirements(method.region);
  needs.reference_logp = needs.reference_logp || kl_coefficient > 0 || reward_kl.coefficient > 0;
  needs.recomputed_logp = needs.recomputed_logp || reward_kl.coefficient > 0;
  needs.value = needs.value || method.advantage == "gae";
  return needs;
}

}  // namespace keel
