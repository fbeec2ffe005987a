#include "keel/objective/methods.h"

#include <map>

#include "keel/core/error.h"

namespace keel {
namespace {

template <class Family>
void add_family(std::vector<Method>& table, const std::vector<MethodRow<Family>>& rows) {
  for (const MethodRow<Family>& row : rows) {
    TrustRegion region = std::visit([](const auto& r) -> TrustRegion { return r; }, row.region);
    table.push_back({row.name, row.summary, row.equation, row.source, row.advantage, row.aggregation, region});
  }
}

}  // namespace

const std::vector<Method>& methods() {
  static const std::vector<Method> table = [] {
    std::vector<Method> rows;  // of each family; defined at the end of regions/FAMILY.cpp
    const auto add = [&rows](const auto&... families) { (add_family(rows, families), ...); };
    add(dppo_rows(), drpo_rows(), ratio_clip_rows(), policy_gradient_rows(), soft_rows(), rollout_correction_rows(),
        sequence_level_rows(), cppo_rows(), batch_level_rows());
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
