#include "keel/objective/advantage.h"

#include <cmath>
#include <map>

#include "keel/core/error.h"

namespace keel {
namespace {

struct GroupStatistics {
  double mean = 0, standard_deviation = 0;
  bool equal = true;  // decided by comparing rewards: a mean of equal numbers need not equal them in floating point
};

std::map<int64_t, GroupStatistics> group_statistics(std::span<const double> rewards, std::span<const int64_t> groups) {
  std::map<int64_t, std::vector<double>> members;
  for (size_t i = 0; i < rewards.size(); ++i) members[groups[i]].push_back(rewards[i]);
  std::map<int64_t, GroupStatistics> result;
  for (const auto& [group, values] : members) {
    GroupStatistics& statistics = result[group];
    for (const double value : values) {
      statistics.mean += value / static_cast<double>(values.size());
      statistics.equal = statistics.equal && value == values[0];
    }
    double squares = 0;
    for (const double value : values) squares += (value - statistics.mean) * (value - statistics.mean);
    if (values.size() > 1) statistics.standard_deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  }
  return result;
}

template <class Scale>
std::vector<double> centred(std::span<const double> rewards, std::span<const int64_t> groups, Scale scale) {
  const auto statistics = group_statistics(rewards, groups);
  std::vector<double> result(rewards.size(), 0.0);
  for (size_t i = 0; i < rewards.size(); ++i) {
    const GroupStatistics& group = statistics.at(groups[i]);
    if (!group.equal) result[i] = (rewards[i] - group.mean) / scale(group);
  }
  return result;
}

}  // namespace

std::vector<double> group_mean_advantages(std::span<const double> rewards, std::span<const int64_t> groups) {
  return centred(rewards, groups, [](const GroupStatistics&) { return 1.0; });
}

std::vector<double> grpo_advantages(std::span<const double> rewards, std::span<const int64_t> groups, double eps) {
  return centred(rewards, groups, [eps](const GroupStatistics& group) { return group.standard_deviation + eps; });
}

std::vector<double> advantages(const std::string& kind, std::span<const double> rewards,
                               std::span<const int64_t> groups) {
  if (kind == "group_mean") return group_mean_advantages(rewards, groups);
  if (kind == "grpo") return grpo_advantages(rewards, groups);
  fail(ExitCode::kBadConfiguration, "objective.advantage is \"", kind, "\"; known: group_mean, grpo");
}

}  // namespace keel
