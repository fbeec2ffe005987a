#include "keel/objective/methods.h"

#include <map>

#include "keel/core/error.h"

namespace keel {
namespace {

template <class Family>
void add_family(std::vector<Method>& table, const char* group, const std::vector<MethodRow<Family>>& rows) {
  for (const MethodRow<Family>& row : rows) {
    TrustRegion region = std::visit([](const auto& r) -> TrustRegion { return r; }, row.region);
    table.push_back({row.name, row.summary, row.equation, row.source, row.advantage, row.aggregation, region, group});
  }
}

}  // namespace

const std::vector<Method>& methods() {
  static const std::vector<Method> table = [] {
    std::vector<Method> rows;  // of each family; defined at the end of regions/FAMILY.cpp
    add_family(rows, "DPPO: a mask on the divergence", dppo_rows());
    add_family(rows, "DRPO and SPO: a weight instead of a mask", drpo_rows());
    add_family(rows, "Ratio clips", ratio_clip_rows());
    add_family(rows, "Policy gradients without a region", policy_gradient_rows());
    add_family(rows, "Soft weights on the ratio", soft_rows());
    add_family(rows, "Corrections for the sampler", rollout_correction_rows());
    add_family(rows, "Whole sequences", sequence_level_rows());
    add_family(rows, "Whole sequences", cppo_rows());
    add_family(rows, "Whole updates", batch_level_rows());
    return rows;
  }();
  return table;
}

TrustRegion make_region(const std::string& method, const Json& parameters) {
  TrustRegion region = find_method(method, "unknown method").region;
  std::map<std::string, std::string> given;  // by canonical name
  for (const auto& [name, value] : parameters.items()) {
    const auto [previous, is_new] = given.emplace(parameter_name(name), name);
    if (!is_new)
      fail(ExitCode::kBadConfiguration, method, "'s parameters \"", previous->second, "\" and \"", name,
           "\" are the same parameter; keep one of them");
    set_parameter(region, method, name, value);
  }
  if (const auto invalid = check_parameters(region)) fail(ExitCode::kBadConfiguration, method, ": ", invalid->reason);
  return region;
}

}  // namespace keel
