#include "keel/objective/methods.h"

#include "keel/core/error.h"
#include "keel/core/options.h"

namespace keel {

void ObjectiveOptions::describe(OptionTable& table) {
  std::vector<std::string> names;
  for (const Method& row : methods()) names.push_back(row.name);
  table.add("method", method, "The row of the table of methods to train with; `keel methods` lists them.",
            one_of(names));
  table.add("delta", delta, "Both thresholds of the trust region at once; null means the method's own.", above(0));
  table.add("delta_low", delta_low, "Threshold for negative advantages; null means delta.", above(0));
  table.add("delta_high", delta_high, "Threshold for positive advantages; null means delta.", above(0));
  table.add("ratio_cap", ratio_cap, "Largest importance ratio; null means the method's own.", above(0));
  table.add("advantage", advantage, "How rewards become advantages; null means the method's own.",
            one_of({"group_mean", "grpo"}));
  table.add("aggregation", aggregation, "How tokens are averaged; null means the method's own.",
            one_of({"token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm"}));
  table.add("horizon", horizon, "Constant divisor of seq_mean_token_sum_norm; null means the longest completion.",
            above(0));
}

const std::vector<Method>& methods() {
  static const std::vector<Method> table = [] {
    std::vector<Method> rows;
    for (const auto& family : {dppo_rows(), ratio_clip_rows(), policy_gradient_rows()})
      rows.insert(rows.end(), family.begin(), family.end());
    return rows;
  }();
  return table;
}

std::vector<std::pair<std::string, double>> parameters(const TrustRegion& region) {
  std::vector<std::pair<std::string, double>> result;
  TrustRegion copy = region;
  std::visit([&](auto& r) { r.visit([&](std::string_view name, double& value) { result.emplace_back(name, value); }); },
             copy);
  return result;
}

namespace {

void set_parameter(Method& method, const char* option, const char* parameter, const std::optional<double>& value) {
  if (!value) return;
  bool found = false;
  std::string known;
  const auto set = [&](std::string_view name, double& target) {
    known += (known.empty() ? "" : ", ") + std::string(name);
    if (name != parameter) return;
    target = *value;
    found = true;
  };
  std::visit([&](auto& region) { region.visit(set); }, method.region);
  if (!found)
    fail(ExitCode::kBadConfiguration, "objective.", option, " is set, but the method ", method.name,
         " has no parameter \"", parameter, "\"; it has: ", known, ". Remove the key or choose another method");
}

}  // namespace

Objective make_objective(const ObjectiveOptions& options, double default_horizon) {
  Objective objective{.method = {}, .horizon = options.horizon.value_or(default_horizon)};
  for (const Method& row : methods())
    if (row.name == options.method) objective.method = row;
  Method& method = objective.method;
  if (method.name.empty())
    fail(ExitCode::kBadConfiguration, "objective.method is \"", options.method,
         "\"; `keel methods` lists the known ones");
  set_parameter(method, "delta", "low", options.delta);
  set_parameter(method, "delta", "high", options.delta);
  set_parameter(method, "delta_low", "low", options.delta_low);
  set_parameter(method, "delta_high", "high", options.delta_high);
  set_parameter(method, "ratio_cap", "ratio_cap", options.ratio_cap);
  if (options.advantage) method.advantage = *options.advantage;
  if (options.aggregation) method.aggregation = *options.aggregation;
  return objective;
}

Requirements Objective::requirements() const {
  return std::visit([](const auto& region) { return region.requirements(); }, method.region);
}

}  // namespace keel
