#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/objective/advantage.h"
#include "keel/objective/reference_kl.h"
#include "keel/objective/regions/region_parameters.h"

namespace keel {

class OptionTable;

/// A row of the table of methods.
using Method = MethodRow<TrustRegion>;

/// Which method, and what to change of its row; the section `objective` of a configuration.
struct ObjectiveOptions {
  std::string method = "dppo_tv";
  std::optional<double> delta = {}, delta_low = {}, delta_high = {}, ratio_cap = {};
  std::optional<std::string> anchor = {}, advantage = {}, aggregation = {};
  std::optional<double> advantage_eps = {}, horizon = {};
  std::vector<std::string> parameters = {};
  double entropy_coefficient = 0;

  void describe(OptionTable& table);
};

/// The pull to the policy that RL starts from; the section `reference` of a configuration.
struct ReferenceOptions {
  double kl_coefficient = 0;
  std::string estimator = "k3";
  double kl_in_reward = 0;
  std::string kl_in_reward_estimator = "k1";
  std::optional<double> kl_in_reward_target = {}, kl_in_reward_horizon = {};

  void describe(OptionTable& table);

  bool used() const { return kl_coefficient > 0 || kl_in_reward > 0; }
};

/// A row with the options applied, and what is added to it.
struct Objective {
  Method method;
  double advantage_eps = kAdvantageEps;         // of the advantage grpo
  double horizon = 0;                           // the constant of seq_mean_token_sum_norm
  double entropy_coefficient = 0;               // of grad H, for every token
  double kl_coefficient = 0;                    // beta of the KL to the reference; 0: there is none
  KlEstimator kl_estimator = KlEstimator::kK3;  // of that KL
  RewardKlPenalty reward_kl = {};               // what the rewards lose to the same reference
  std::optional<double> target_kept = {};       // share of tokens to keep, when the thresholds move by themselves
  Requirements requirements() const;
};

/// Every method, in the order in which they are documented.
const std::vector<Method>& methods();

/// The row of that name, or of the papers' name for it (ppo_clip, dppo_binary_tv, dppo_binary_kl). An unknown one is an
/// error (exit code 2) that starts with `what` and suggests the nearest.
const Method& find_method(const std::string& name, const std::string& what);

/// A region from a method's name and its parameters by name, numbers and words. Besides the table's rows it knows
/// ppo_clip, dppo_binary_tv and dppo_binary_kl, and C (or c) for ratio_cap. Unknown ones are errors (exit code 2), and
/// so are parameters that contradict one another.
TrustRegion make_region(const std::string& method, const Json& parameters);

/// Picks the row and applies the overrides. A parameter that the row's region does not have, a setting that would have
/// no effect, and an advantage that the row cannot use are errors (exit code 2).
Objective make_objective(const ObjectiveOptions& options, double default_horizon,
                         const ReferenceOptions& reference = {});

}  // namespace keel
