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

/// What completions are worth; the section `reward` of a configuration. docs/rewards.md has the table of functions.
struct RewardOptions {
  std::vector<std::string> functions;
  std::vector<double> weights;
  int64_t overlong_buffer = 0;
  double overlong_penalty = 1;
  std::string on_error = "stop";
  double timeout = 60;
  int64_t workers = 0;
  std::string python = "python3";

  void describe(OptionTable& table);

  /// Threads that score, and processes of each user program, at most.
  size_t worker_count() const;
};

/// A function that reward.functions can name, and what it gives.
struct BuiltInReward {
  std::string name, sentence;
};
std::vector<BuiltInReward> built_in_rewards();

/// The same text of reward.functions with the files that it names (of python:, and the words of exec: that are files)
/// by their full paths, so that it means the same from any folder.
std::string with_absolute_paths(const std::string& function);

/// The tokens from which on DAPO's penalty grows, where the function is overlong:LONGEST,BUFFER.
std::optional<double> soft_penalty_start(const std::string& function);

/// What metrics and messages call a function: its files by their names alone, wherever they lie.
std::string short_name(const std::string& function);

/// A built-in task's check: the prompt and the completion with its stop token spelled out.
using RewardFunction = std::function<double(const Prompt& prompt, std::string_view completion)>;

/// How it reads the final answer of such a completion; empty: there is none.
using AnswerExtractor = std::function<std::string(std::string_view completion)>;

/// The sum that the options describe. `task` is the reward called "task", where a built-in task runs; it is also the
/// default there, and "math" elsewhere. `max_new_tokens` is what overlong_buffer ends at. User programs are started
/// and the sandbox is tried out: what cannot work is an Error now and not after the first rollouts.
RewardSum make_reward(const RewardOptions& options, const RewardFunction& task = {}, const AnswerExtractor& reader = {},
                      int64_t max_new_tokens = 0);

/// The function as a reward; with a reader it judges final answers.
std::unique_ptr<Reward> make_function_reward(RewardFunction function, AnswerExtractor reader = {});

}  // namespace keel
