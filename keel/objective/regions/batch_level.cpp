#include "keel/objective/regions/batch_level.h"

#include <ATen/ATen.h>

#include <iterator>
#include <map>

#include "keel/core/error.h"
#include "keel/objective/regions/sequence_reducer.h"

namespace keel {
namespace {

/// tau^2 with sum min(x, tau^2) = budget n over the n chosen entries of x; infinite when their sum is below that.
Tensor second_moment_cut(const Tensor& squares, const Tensor& chosen, double budget) {
  const Tensor x = std::get<0>(squares.to(at::kDouble).masked_fill(chosen.logical_not(), kUnlimited).sort());
  const Tensor n = chosen.sum().to(x.scalar_type()), k = at::arange(x.numel(), x.options());
  const Tensor smaller = SequenceReducer({x.numel()}, x.isfinite()).exclusive_cumsum(x);
  // If exactly the k smallest stay uncut, the cut is at (n budget - their sum) / (n - k). Too small a k puts it above
  // the next entry, which shows; too large a k puts it below the true one, because entries count in full that are cut.
  const Tensor cut = (n * budget - smaller) / (n - k).clamp_min(1);
  const Tensor possible = (k < n).logical_and(cut <= x);
  const Tensor largest = cut.masked_fill(possible.logical_not(), -kUnlimited).amax();
  return at::where(possible.any(), largest, at::full_like(largest, kUnlimited));
}

/// The mean of each sequence's group, over its sequences that have a valid token. [S] to [S].
Tensor group_means(const LossInputs& p, const SequenceReducer& sequences, const Tensor& values) {
  const int64_t count = values.numel();
  if (!p.groups.empty() && std::ssize(p.groups) != count)
    fail(ExitCode::kInternal, "there are ", count, " sequences, but ", p.groups.size(), " group numbers");
  std::map<int64_t, std::vector<int64_t>> members;
  for (int64_t s = 0; s < count; ++s) members[p.groups.empty() ? 0 : p.groups[s]].push_back(s);
  std::vector<int64_t> order, sizes;
  for (const auto& [group, of_group] : members) {
    order.insert(order.end(), of_group.begin(), of_group.end());
    sizes.push_back(std::ssize(of_group));
  }
  const Tensor by_group = at::tensor(order, at::kLong).to(values.device());
  const SequenceReducer groups(sizes, (sequences.counts() > 0).index_select(0, by_group));
  return groups.broadcast(groups.mean(values.index_select(0, by_group))).index_select(0, by_group.argsort());
}

/// The mean over the group's sequences of their token means. [N] to [N].
Tensor mean_of_group(const LossInputs& p, const Tensor& tokens) {
  const SequenceReducer sequences(p);
  return sequences.broadcast(group_means(p, sequences, sequences.mean(tokens)));
}

/// The mean over all tokens, as if they were one sequence. [N] to [N].
Tensor mean_of_batch(LossInputs p, const Tensor& tokens) {
  p.lengths.clear();
  const SequenceReducer whole(p);
  return whole.broadcast(whole.mean(tokens));
}

}  // namespace

TokenDecision M2po::operator()(const LossInputs& p) const {
  const Tensor distance = (p.logp - p.behavior_logp).abs(), away = moves_away(p);
  const ClampedTensor ratio = capped_ratio(p, ratio_cap);
  if (distance.numel() == 0) return hard_mask(p, ratio, away, distance, distance);
  const Tensor tau = second_moment_cut(distance.square(), away, budget).sqrt().to(distance.scalar_type());
  return hard_mask(p, ratio, away.logical_and(distance > tau), distance, tau.expand_as(distance));
}

TokenDecision Tvpo::operator()(const LossInputs& p) const {
  const auto [ratio, clamps] = importance_ratio(p, anchor);
  const Tensor tv = (ratio - 1).abs() / 2;
  const Tensor judged = scope == AverageOver::kGroup ? mean_of_group(p, tv) : mean_of_batch(p, tv);
  const Tensor blocked = moves_away(p, anchor).logical_and(judged > clip / 2);
  return hard_mask(p, {ratio.clamp_max(ratio_cap), clamps}, blocked, judged, at::full_like(tv, clip / 2));
}

std::vector<MethodRow<BatchLevelFamily>> batch_level_rows() {
  return {{.name = "m2po",
           .summary = "A bound on the second moment of the log-ratio, with a cut that the batch decides.",
           .equation = "g = min(r, ratio_cap) A; blocked: A (pi - mu) > 0 and |log r| > tau, mean min((log r)^2, "
                       "tau^2) = budget",
           .source = "arXiv 2510.01161",
           .advantage = "grpo",
           .aggregation = "token_mean",
           .region = M2po{}},
          {.name = "tvpo",
           .summary = "Updates that lead away are left out where the group has spent its total variation.",
           .equation = "g = min(r, ratio_cap) A; blocked: A (pi - mu) > 0 and mean |r - 1|/2 > clip/2",
           .source = "TVPO, as contributed to verl",
           .advantage = "grpo",
           .aggregation = "token_mean",
           .region = Tvpo{}}};
}

}  // namespace keel
