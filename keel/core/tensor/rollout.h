#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "keel/core/kept_tokens.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

/// The reason why a completion ended: a stop token, a stop string, or the maximum length.
enum class Finish { kStop, kStopString, kLength };

/// Returns the finish reason of the OpenAI API and vLLM, which do not distinguish a stop token from a stop string.
inline const char* finish_name(Finish finish) { return finish == Finish::kLength ? "length" : "stop"; }

/// The tokens of a prompt or a completion as columns: ids, log-probs and so on, with one row per token. A group shares
/// its prompt's rows. Each completion owns its rows.
struct TokenColumns {
  std::shared_ptr<const TokenColumns> prompt;  // the preceding rows; null in a prompt's own columns

  // One row for each of T tokens.
  std::vector<int32_t> ids;      // [T] including the stop token
  std::vector<uint8_t> trained;  // [T] 1: sampled by the policy and trained; 0: input

  // One row for each of the M trained tokens, in their order.
  std::vector<float> behavior_logp;        // [M] log mu of each token under the tempered sampling distribution
  std::vector<float> behavior_other_logp;  // [M] log(1 - mu), from the logits: exact where log mu rounds to 0
  std::vector<float> behavior_entropy;     // [M] of that distribution
  KeptTokens kept;                         // the tokens of that distribution, if sampling was truncated

  // Filled if the method's Requirements include them.
  std::vector<int64_t> topk_ids;             // [M * K] the sampler's K most likely tokens, in descending order
  std::vector<float> topk_behavior_logp;     // [M * K] their log mu
  Tensor hidden_states;                      // [M, H] the sampler's states that predicted each token
  std::vector<float> recomputed_logp;        // [M] its log-prob by the trainer, at the sampling weights and temperature
  std::vector<float> recomputed_other_logp;  // [M] log(1 - p) of the same
  std::vector<float> reference_logp;         // [M] the reference policy's log-probability
  std::vector<float> values;                 // [M] the critic's value of the state before each token

  size_t size() const { return ids.size(); }
  int64_t trained_count() const { return std::ranges::count(trained, 1); }

  /// Returns the row indices of the trained tokens.
  std::vector<int64_t> trained_positions() const {
    std::vector<int64_t> positions;
    for (size_t i = 0; i < size(); ++i)
      if (trained[i]) positions.push_back(static_cast<int64_t>(i));
    return positions;
  }

  void append(std::span<const int32_t> tokens, bool are_trained) {
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    trained.resize(ids.size(), are_trained ? 1 : 0);
  }
};

/// Creates the rows of a prompt, which its group shares.
inline std::shared_ptr<const TokenColumns> prompt_columns(std::span<const int32_t> tokens) {
  const auto columns = std::make_shared<TokenColumns>();
  columns->append(tokens, /*are_trained=*/false);
  return columns;
}

/// The reward of one function, before the weighted sum.
struct WeightedReward {
  int64_t function = 0;  // its index
  double weight = 1, reward = 0;
};

/// One sampled completion.
struct Rollout {
  uint64_t id = 0;      // keys the sampling noise: the same id draws the same noise in any batch
  int64_t prompt = 0;   // index of its prompt in the step; rollouts of one prompt form a group
  TokenColumns tokens;  // of the completion; tokens.prompt has the tokens of the prompt
  std::string text;     // the completion without its stop token or stop string
  Finish finish = Finish::kStop;
  uint64_t policy_version = 0;  // number of updates of the sampling weights
  double reward = 0;
  std::vector<WeightedReward> function_rewards;  // of the functions that scored it; only for the advantage gdpo
  bool has_reward = true;                        // unscored rollouts are excluded from statistics and updates
};

}  // namespace keel
