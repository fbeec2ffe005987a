#include "keel/objective/regions/batch_level.h"

#include <ATen/ATen.h>

#include <iterator>
#include <map>

#include "keel/core/error.h"
#include "keel/objective/regions/sequence_reducer.h"

namespace keel {
namespace {

/// Solves sum min(x, tau^2) = budget * n for tau^2, over the n selected entries x of `squares`. Infinite if the sum of
/// x is smaller.
Tensor solve_squared_cut(const Tensor& squares, const Tensor& selected, double budget) {
  const Tensor x = std::get<0>(squares.to(at::kDouble).masked_fill(selected.logical_not(), kUnlimited).sort());
  const Tensor n = selected.sum().to(x.scalar_type()), k = at::arange(x.numel(), x.options());
  const Tensor smaller = SequenceReducer({x.numel()}, x.isfinite()).exclusive_cumsum(x);
  // If exactly the k smallest are not cut, the cut is (n budget - their sum) / (n - k). If k is too small, the cut is
  // above the next entry and is rejected. If k is too large, the cut is below the true one, so the maximum is right.
  const Tensor cut = (n * budget - smaller) / (n - k).clamp_min(1);
  const Tensor possible = (k < n).logical_and(cut <= x);
  const Tensor largest = cut.masked_fill(possible.logical_not(), -kUnlimited).amax();
  return at::where(possible.any(), largest, at::full_like(largest, kUnlimited));
}

/// The mean of `values` over the sequences of each group that have valid tokens. [S] to [S].
Tensor group_means(const LossInputs& p, const SequenceReducer& sequences, const Tensor& values) {
  const int64_t count = values.numel();
  if (!p.groups.empty() && std::ssize(p.groups) != count)
    fail(ExitCode::kInternal, "there are ", count, " sequences, but ", p.groups.size(), " group ids");
  std::map<int64_t, std::vector<int64_t>> members;
  for (int64_t s = 0; s < count; ++s) members[p.groups.empty() ? 0 : p.groups[s]].push_back(s);
  std::vector<int64_t> order, sizes;
  for (const auto& [group, indices] : members) {
    order.insert(order.end(), indices.begin(), indices.end());
    sizes.push_back(std::ssize(indices));
  }
  const Tensor by_group = at::tensor(order, at::kLong).to(values.device());
  const SequenceReducer groups(sizes, (sequences.counts() > 0).index_select(0, by_group));
  return groups.broadcast(groups.mean(values.index_select(0, by_group))).index_select(0, by_group.argsort());
}

/// The mean over the sequences of the group of their token means. [N] to [N].
Tensor group_mean(const LossInputs& p, const Tensor& tokens) {
  const SequenceReducer sequences(p);
  return sequences.broadcast(group_means(p, sequences, sequences.mean(tokens)));
}

/// The mean over all tokens, as if they were one sequence. [N] to [N].
Tensor batch_mean(LossInputs p, const Tensor& tokens) {
  p.lengths.clear();
  const SequenceReducer whole(p);
  return whole.broadcast(whole.mean(tokens));
}

}  // namespace

TokenDecision M2po::operator()(const LossInputs& p) const {
  const Tensor distance = (p.logp - p.behavior_logp).abs(), away = moves_away(p);
  const ClampedTensor ratio = capped_ratio(p, ratio_cap);
  if (distance.numel() == 0) return hard_mask(p, ratio, away, distance, distance);
  const Tensor tau = solve_squared_cut(distance.square(), away, budget).sqrt().to(distance.scalar_type());
  return hard_mask(p, ratio, away.logical_and(distance > tau), distance, tau.expand_as(distance));
}

TokenDecision Tvpo::operator()(const LossInputs& p) const {
  const auto [ratio, clamps] = importance_ratio(p, anchor);
  const Tensor tv = (ratio - 1).abs() / 2;
  const Tensor mean_tv = scope == AverageOver::kGroup ? group_mean(p, tv) : batch_mean(p, tv);
  const Tensor blocked = moves_away(p, anchor).logical_and(mean_tv > clip / 2);
  return hard_mask(p, {ratio.clamp_max(ratio_cap), clamps}, blocked, mean_tv, at::full_like(tv, clip / 2));
}

std::vector<MethodRow<BatchLevelFamily>> batch_level_rows() {
  return {
      {.name = "m2po",
       .summary = "Masks so that the second moment of the log-ratio over the batch meets a budget.",
       .equation = "g = min(r, ratio_cap) A; blocked: A (pi - mu) > 0 and |log r| > tau, mean min((log r)^2, "
                   "tau^2) = budget",
       .source = "arXiv 2510.01161",
       .advantage = "grpo",
       .aggregation = "token_mean",
       .region = M2po{}},
      {.name = "tvpo",
       .summary = "Blocks updates that move away from mu if the mean total variation of the group exceeds a budget.",
       .equation = "g = min(r, ratio_cap) A; blocked: A (pi - mu) > 0 and mean |r - 1|/2 > clip/2",
       .source = "TVPO, as contributed to verl",
       .advantage = "grpo",
       .aggregation = "token_mean",
       .region = Tvpo{}}};
}

}  // namespace keel
