#include <algorithm>
#include <map>

#include "keel/core/error.h"
#include "keel/core/nearest.h"
#include "keel/core/strings.h"
#include "keel/objective/methods.h"

namespace keel {
namespace {

/// The hint for well-known methods that Keel does not have. Their names resemble methods that it has.
std::string unsupported_method_hint(const std::string& name) {
  for (const char* preference_method : {"dpo", "kto", "orpo", "rpo", "cpo", "simpo"})
    if (name == preference_method) return "it learns from preferences, but Keel's methods learn from rewards; ";
  for (const char* other : {"trpo", "vapo", "opo", "remax"})
    if (name == other) return "it is a different method, which Keel does not have; ";
  for (const char* advantage :
       {"rloo", "maxrl", "batch_mean", "gdpo", "reinforce_pp", "reinforce_pp_baseline", "group_mean", "gae"})
    if (name == advantage)
      return "it is an advantage estimator: set objective.advantage=" + name + " with a method such as ppo; ";
  if (name == "reinforce++" || name == "reinforce_plus_plus")
    return "it is an advantage estimator: set objective.advantage=reinforce_pp with a method such as ppo; ";
  if (name == "reinforce") return "it is called pg here, and REINFORCE++ is objective.advantage=reinforce_pp; ";
  return "";
}

/// The known name that `name` probably misspells. A short name counts as misspelt only if letters are missing or
/// swapped: with a different letter it is another method.
std::optional<std::string> nearest_method(const std::string& name, std::vector<std::string> names) {
  constexpr size_t kShort = 4;
  const auto is_other_method = [&](const std::string& known) {
    return known.size() <= name.size() && !std::is_permutation(known.begin(), known.end(), name.begin(), name.end());
  };
  if (name.size() <= kShort) std::erase_if(names, is_other_method);
  return nearest_name(name, names);
}

}  // namespace

const Method& find_method(const std::string& name, const std::string& what) {
  // Aliases from the papers, and names that verl uses for methods with other defaults.
  static const std::map<std::string, std::string> aliases{
      {"ppo_clip", "ppo"}, {"dppo_binary_tv", "dppo_tv"}, {"dppo_binary_kl", "dppo_kl"}};
  static const std::map<std::string, std::string> similar{{"vanilla", "ppo"}, {"geo_mean", "gmpo"}};
  const auto alias = aliases.find(name);
  std::vector<std::string> names;
  for (const Method& row : methods()) {
    if (row.name == (alias == aliases.end() ? name : alias->second)) return row;
    names.push_back(row.name);
  }
  for (const auto& [alternative, row] : aliases) names.push_back(alternative);
  const auto verl_name = similar.find(name);
  const std::optional<std::string> near =
      verl_name == similar.end() ? nearest_method(lower_case(name), names) : verl_name->second;
  std::string hint = unsupported_method_hint(lower_case(name));
  if (hint.empty() && near) hint = "did you mean " + *near + "? ";
  fail(ExitCode::kBadConfiguration, what, " \"", name, "\"; ", hint,
       "`keel methods`, in Python keel.methods(), lists the known ones");
}

}  // namespace keel
