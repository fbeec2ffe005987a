#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/objective/advantage.h"
#include "keel/objective/centering.h"
#include "keel/objective/reference_kl.h"
#include "keel/objective/regions/region_parameters.h"

namespace keel {

class OptionTable;

/// A method: its defaults, and its policy loss (`region`).
using Method = MethodRow<TrustRegion>;

/// The configuration section `objective`: a method and overrides of its defaults.
struct ObjectiveOptions {
  std::string method = "dppo_tv";
  std::optional<double> delta = {}, delta_low = {}, delta_high = {}, ratio_cap = {};
  std::optional<std::string> anchor = {}, advantage = {}, aggregation = {};
  std::optional<double> advantage_eps = {}, horizon = {};
  std::vector<std::string> parameters = {};
  double entropy_coefficient = 0;
  std::string centering = "none";

  void describe(OptionTable& table);
};

/// The configuration section `reference`: the KL penalty to the policy at the start of RL.
struct ReferenceOptions {
  double kl_coefficient = 0;
  std::string estimator = "k3";
  double kl_in_reward = 0;
  std::string kl_in_reward_estimator = "k1";
  std::optional<double> kl_in_reward_target = {}, kl_in_reward_horizon = {};

  void describe(OptionTable& table);

  bool used() const { return kl_coefficient > 0 || kl_in_reward > 0; }
};

/// A method with all overrides applied, and the terms that are added to its loss.
struct Objective {
  Method method;
  double advantage_eps = kAdvantageEps;         // only for the advantage grpo
  double length_divisor = 0;                    // of seq_mean_token_sum_norm
  double entropy_coefficient = 0;               // coefficient of the per-token entropy bonus
  Centering centering = Centering::kNone;       // of the policy-gradient term
  double kl_coefficient = 0;                    // beta of the reference-KL loss term; 0: off
  KlEstimator kl_estimator = KlEstimator::kK3;  // of that term
  RewardKlPenalty reward_kl = {};               // the reference KL as a reward penalty
  std::optional<double> target_kept = {};       // target fraction of tokens inside an adaptive trust region
  Requirements requirements() const;
};

/// All methods, in the order of the documentation.
const std::vector<Method>& methods();

/// Returns the method with this name or alias (ppo_clip, dppo_binary_tv, dppo_binary_kl). For an unknown name it fails
/// (exit code 2) with a message that starts with `what` and suggests the nearest name.
const Method& find_method(const std::string& name, const std::string& what);

/// Returns the region of a method (or alias) with the given parameters; C or c sets ratio_cap. Fails (exit code 2) for
/// unknown names and for parameters that contradict one another.
TrustRegion make_region(const std::string& method, const Json& parameters);

/// Looks up the method and applies the overrides. Fails (exit code 2) if the method does not have a parameter, ignores
/// a setting, or cannot use the advantage.
Objective make_objective(const ObjectiveOptions& options, double max_completion_length,
                         const ReferenceOptions& reference = {});

}  // namespace keel
