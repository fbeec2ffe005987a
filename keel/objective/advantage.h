#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

// One advantage per sequence, from its reward and the rewards of its group. For group_mean, grpo, rloo and maxrl it is
// exactly 0 if all rewards of the group are equal, and in a group of one.

/// R - mean(group), without division by the standard deviation (Dr. GRPO, DPPO).
std::vector<double> group_mean_advantages(std::span<const double> rewards, std::span<const int64_t> groups);

/// Default eps of GRPO, as in verl; TRL uses 1e-4.
inline constexpr double kAdvantageEps = 1e-6;

/// GRPO (arXiv 2402.03300): (R - mean) / (std + eps), with the unbiased std (n - 1).
std::vector<double> grpo_advantages(std::span<const double> rewards, std::span<const int64_t> groups,
                                    double eps = kAdvantageEps);

/// (R - mean) / mean of the group, for maximum-likelihood RL. Fails for a reward below 0.
std::vector<double> maxrl_advantages(std::span<const double> rewards, std::span<const int64_t> groups);

/// R - mean of all rewards of the step, which also works with one completion per prompt.
std::vector<double> batch_mean_advantages(std::span<const double> rewards);

/// GDPO: the rewards of each function become (R - mean) / (std + eps) of its group; their weighted sums become
/// (x - mean) / (std + eps) of all sequences. Rows of `functions` have a function's rewards; NaN: it scored nothing.
std::vector<double> gdpo_advantages(std::span<const std::vector<double>> functions, std::span<const double> weights,
                                    std::span<const int64_t> groups, double eps = kAdvantageEps);

/// RLOO (arXiv 2402.14740): R - mean of the other rewards of the group (leave-one-out baseline).
std::vector<double> rloo_advantages(std::span<const double> rewards, std::span<const int64_t> groups);

/// Returns whether the estimator compares the rewards of a whole step, and not only those of a prompt.
inline bool compares_whole_step(std::string_view advantage) {
  return advantage == "reinforce_pp" || advantage == "batch_mean";
}

/// The sequence advantages of the estimator `kind`: "group_mean", "grpo", "rloo", "maxrl", "batch_mean", "reinforce_pp"
/// or "reinforce_pp_baseline". The last two are used without discounting, so that all tokens of a sequence share one
/// value; their whitening weighs each sequence by its length, which must be at least 1. Only grpo uses `eps`.
std::vector<double> sequence_advantages(const std::string& kind, std::span<const double> rewards,
                                        std::span<const int64_t> groups, std::span<const int64_t> lengths,
                                        double eps = kAdvantageEps);

// One advantage per token. Masked tokens are skipped: they are never read, count as no time step, and get advantage 0.

/// Inputs of token advantages: S sequences with N tokens in all, concatenated.
struct TokenRewards {
  std::span<const double> rewards;        // [S]
  std::span<const int64_t> groups;        // [S], used only by reinforce_pp_baseline
  std::span<const int64_t> lengths;       // [S]
  std::span<const uint8_t> mask;          // [N]
  std::span<const double> token_rewards;  // [N], used only by gae; empty: `rewards` on the last valid tokens
  std::span<const double> values;         // [N] value estimates, used only by gae
};

/// REINFORCE++ (arXiv 2501.03262): the reward on the last valid token, discounted returns, then whiten()
/// over all valid tokens.
std::vector<double> reinforce_pp_advantages(const TokenRewards& batch, double gamma = 1, double eps = 1e-8);

/// REINFORCE++-baseline: the group-mean advantage on every token, then whiten(). A group of equal rewards can differ
/// from 0 here, because longer sequences weigh more in the mean that whitening subtracts.
std::vector<double> reinforce_pp_baseline_advantages(const TokenRewards& batch, double eps = 1e-8);

/// Replaces the valid tokens by (x - mean) / sqrt(var + eps) with the unbiased variance (n - 1). Masked tokens become
/// 0, and all tokens do if the valid ones are equal.
void whiten(std::vector<double>& tokens, std::span<const uint8_t> mask, double eps = 1e-8);

struct AdvantagesAndReturns {
  std::vector<double> advantages, returns;  // [N]; a return is the regression target of the value
};

/// GAE (arXiv 1506.02438) without whitening. The value after the last token is 0.
AdvantagesAndReturns gae_advantages(const TokenRewards& batch, double gamma, double lambda);

}  // namespace keel
