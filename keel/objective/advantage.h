#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace keel {

// One advantage per sequence, from its reward and its group's. A group of equal rewards, or of one, is exactly 0.

/// R - mean of the group, without a standard deviation (the papers' choice).
std::vector<double> group_mean_advantages(std::span<const double> rewards, std::span<const int64_t> groups);

/// What is added to a group's standard deviation, where nothing else is said: verl's number; TRL adds 1e-4.
inline constexpr double kAdvantageEps = 1e-6;

/// GRPO (arXiv 2402.03300): (R - mean) / (std + eps), std with n - 1.
std::vector<double> grpo_advantages(std::span<const double> rewards, std::span<const int64_t> groups,
                                    double eps = kAdvantageEps);

/// RLOO (arXiv 2402.14740): R - mean of the others of the group.
std::vector<double> rloo_advantages(std::span<const double> rewards, std::span<const int64_t> groups);

/// By its configuration word, one per sequence: "group_mean", "grpo", "rloo", and "reinforce_pp" and
/// "reinforce_pp_baseline" (below) without discounting, where all tokens of a sequence share one number. `lengths` [S],
/// each at least 1, is what those two weigh sequences by, `eps` is grpo's.
std::vector<double> advantages(const std::string& kind, std::span<const double> rewards,
                               std::span<const int64_t> groups, std::span<const int64_t> lengths,
                               double eps = kAdvantageEps);

// One advantage per token. Masked tokens are skipped: never read, no time step for discounting, advantage 0.

/// What the advantages of tokens are computed from; S sequences, whose N tokens lie one after another.
struct TokenRewards {
  std::span<const double> rewards;        // [S]
  std::span<const int64_t> groups;        // [S], for reinforce_pp_baseline alone
  std::span<const int64_t> lengths;       // [S]
  std::span<const uint8_t> mask;          // [N]
  std::span<const double> token_rewards;  // [N], for gae alone; none: a sequence's reward is its last valid token's
  std::span<const double> values;         // [N], for gae alone
};

/// REINFORCE++ (arXiv 2501.03262): the reward on the last valid token, discounted returns, then whitening over all
/// valid tokens: (x - mean) / sqrt(var + eps), var with n - 1; exactly 0 where all are equal.
std::vector<double> reinforce_pp_advantages(const TokenRewards& batch, double gamma = 1, double eps = 1e-8);

/// Its form with a baseline: the group mean's advantage on every token, then the same whitening. A group of equal
/// rewards need not be 0 here: longer sequences weigh more in the mean that whitening takes off.
std::vector<double> reinforce_pp_baseline_advantages(const TokenRewards& batch, double eps = 1e-8);

/// In place, over the valid tokens: (x - mean) / sqrt(var + eps), var with n - 1; 0 where masked or all are equal.
void whiten(std::vector<double>& tokens, std::span<const uint8_t> mask, double eps = 1e-8);

struct AdvantagesAndReturns {
  std::vector<double> advantages, returns;  // [N]; a return is what the value should have been
};

/// GAE (arXiv 1506.02438), not whitened; the value after the end is 0.
AdvantagesAndReturns gae_advantages(const TokenRewards& batch, double gamma, double lambda);

}  // namespace keel
