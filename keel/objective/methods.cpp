#include "keel/objective/methods.h"

#include "keel/core/error.h"
#include "keel/core/nearest.h"
#include "keel/core/options.h"
#include "keel/objective/regions.h"

namespace keel {
namespace {

/// Names one after the other, for a message.
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool has_number(const TrustRegion& region, const std::string& parameter) {
  for (const auto& [name, value] : parameters(region))
    if (name == parameter) return true;
  return false;
}

void set_number(Method& method, const char* option, const std::string& parameter, const std::optional<double>& value) {
  if (!value) return;
  if (!has_number(method.region, parameter))
    fail(ExitCode::kBadConfiguration, "objective.", option, " is set, but the method ", method.name,
         " has no parameter \"", parameter, "\"; it has: ", listed(parameter_names(method.region)),
         ". Remove the key or choose another method");
  set_parameter(method.region, method.name, parameter, *value);
}

/// `delta` is the region's one threshold, or both of two.
void set_delta(Method& method, const std::optional<double>& value) {
  if (has_number(method.region, "delta")) return set_number(method, "delta", "delta", value);
  set_number(method, "delta", "low", value);
  set_number(method, "delta", "high", value);
}

void set_by_name(Method& method, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos)
    fail(ExitCode::kBadConfiguration, "objective.parameters has \"", assignment, "\"; wanted name=value");
  const std::string text = assignment.substr(equals + 1);
  const Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  set_parameter(method.region, method.name, assignment.substr(0, equals), parsed.is_discarded() ? Json(text) : parsed);
}

[[noreturn]] void refuse_unknown(const std::string& name) {
  std::vector<std::string> names;
  for (const Method& row : methods()) names.push_back(row.name);
  const std::optional<std::string> near = nearest_name(name, names);
  fail(ExitCode::kBadConfiguration, "objective.method is \"", name, "\"; ", near ? "did you mean " + *near + "? " : "",
       "`keel methods` lists the known ones");
}

void refuse_what_cannot_train(const Method& method) {
  const std::string missing = missing_for_training(requirements(method.region));
  if (missing.empty()) return;
  std::vector<std::string> trainable;
  for (const Method& row : methods())
    if (missing_for_training(requirements(row.region)).empty()) trainable.push_back(row.name);
  fail(ExitCode::kBadConfiguration, "objective.method: ", method.name, " needs ", missing,
       ", which this version's trainer does not supply yet; rows that train: ", listed(trainable));
}

}  // namespace

void ObjectiveOptions::describe(OptionTable& table) {
  table.add("method", method, "The row of the table of methods to train with; `keel methods` lists them.", not_empty());
  table.add("delta", delta, "The trust region's threshold, or both of two at once; null means the method's own.",
            above(0));
  table.add("delta_low", delta_low, "Threshold for negative advantages; null means delta.", above(0));
  table.add("delta_high", delta_high, "Threshold for positive advantages; null means delta.", above(0));
  table.add("ratio_cap", ratio_cap, "Largest importance ratio; null means the method's own.", above(0));
  table.add("parameters", parameters, "The method's other parameters, each as name=value; null as a value means none.");
  table.add("advantage", advantage, "How rewards become advantages; null means the method's own.",
            one_of({"group_mean", "grpo", "rloo"}));
  table.add("aggregation", aggregation, "How tokens are averaged; null means the method's own.",
            one_of({"token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm"}));
  table.add("horizon", horizon, "Constant divisor of seq_mean_token_sum_norm; null means the longest completion.",
            above(0));
}

const std::vector<Method>& methods() {
  static const std::vector<Method> table = [] {
    std::vector<Method> rows;
    for (const auto& family : {dppo_rows(), drpo_rows(), ratio_clip_rows(), policy_gradient_rows(), soft_rows(),
                               correction_rows(), sequence_rows(), batch_rows()})
      rows.insert(rows.end(), family.begin(), family.end());
    return rows;
  }();
  return table;
}

std::string missing_for_training(const Requirements& needs) {
  std::vector<std::string> missing;
  if (needs.reference_logp) missing.push_back("reference log-probs");
  if (needs.value) missing.push_back("a critic");
  if (needs.scope == Scope::kBatch) missing.push_back("the whole update at once");
  return listed(missing);
}

Objective make_objective(const ObjectiveOptions& options, double default_horizon) {
  Objective objective{.method = {}, .horizon = options.horizon.value_or(default_horizon)};
  for (const Method& row : methods())
    if (row.name == options.method) objective.method = row;
  Method& method = objective.method;
  if (method.name.empty()) refuse_unknown(options.method);
  set_delta(method, options.delta);
  set_number(method, "delta_low", "low", options.delta_low);
  set_number(method, "delta_high", "high", options.delta_high);
  set_number(method, "ratio_cap", "ratio_cap", options.ratio_cap);
  for (const std::string& assignment : options.parameters) set_by_name(method, assignment);
  refuse_what_cannot_train(method);
  if (options.advantage) method.advantage = *options.advantage;
  if (options.aggregation) method.aggregation = *options.aggregation;
  return objective;
}

Requirements Objective::requirements() const { return keel::requirements(method.region); }

}  // namespace keel
