#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/prompt.h"
#include "keel/reward/reward_sum.h"

namespace keel {

class OptionTable;

/// The section `reward` of a configuration. docs/rewards.md lists the functions.
struct RewardOptions {
  std::vector<std::string> functions;
  std::vector<double> weights;
  int64_t overlong_buffer = 0;
  double overlong_penalty = 1;
  std::string on_error = "stop";
  double timeout = 60;  // seconds per attempt of a program or server
  int64_t workers = 0;
  std::string python = "python3";

  void describe(OptionTable& table);

  /// Maximum number of scoring threads, and of processes per user program.
  size_t worker_count() const;
};

/// A function that reward.functions can name.
struct BuiltInReward {
  std::string name, summary;
};
std::vector<BuiltInReward> built_in_rewards();

/// Makes the paths in an entry of reward.functions absolute: the file of python:, and the arguments of exec: that are
/// files. The entry then works from any folder.
std::string with_absolute_paths(const std::string& function);

/// Returns the length at which the DAPO penalty starts, if the function is overlong:MAX_LENGTH,BUFFER.
std::optional<double> soft_penalty_start(const std::string& function);

/// Returns the function's name in metrics and messages: files without their folders.
std::string short_name(const std::string& function);

/// Scores a completion of a built-in task. The completion includes the text of its stop token.
using RewardFunction = std::function<double(const Prompt& prompt, std::string_view completion)>;

/// Returns the final answer in a completion; empty if there is none.
using AnswerExtractor = std::function<std::string(std::string_view completion)>;

/// Creates the reward of a run. `task` is the reward function "task". Without reward.functions it is the reward, or
/// "math" if it is empty. `max_new_tokens` is the maximum completion length for overlong_buffer. Starts user programs
/// and tests the sandbox, so that errors appear before the first rollouts.
RewardSum make_reward(const RewardOptions& options, const RewardFunction& task = {},
                      const AnswerExtractor& extractor = {}, int64_t max_new_tokens = 0);

/// Wraps a function as a reward. With an extractor it scores final answers.
std::unique_ptr<Reward> make_function_reward(RewardFunction function, AnswerExtractor extractor = {});

}  // namespace keel
