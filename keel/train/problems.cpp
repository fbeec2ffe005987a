#include "keel/train/problems.h"

#include "keel/core/error.h"
#include "keel/data/open_dataset.h"
#include "keel/task/tasks.h"
#include "keel/train/task_prompts.h"

namespace keel {
namespace {

/// The task's check. It knows its own stop word; a model that was loaded may end its completions with another.
RewardFunction task_check(const std::shared_ptr<const Task>& task, const LoadedModel& policy) {
  std::vector<std::string> stops;
  for (const int32_t id : policy.stop_ids)
    if (id < policy.tokenizer.size()) stops.push_back(policy.tokenizer.token(id));
  return [task, stops](const Prompt& prompt, std::string_view completion) {
    const Problem problem{prompt.text, prompt.answer};
    for (const std::string& stop : stops) {
      if (stop == kStopWord || stop.empty() || !completion.ends_with(stop)) continue;
      std::string spelled(completion.substr(0, completion.size() - stop.size()));
      spelled += ' ';
      spelled += kStopWord;
      return task->check(problem, spelled);
    }
    return task->check(problem, completion);
  };
}

}  // namespace

Problems::Problems(const Config& config, const LoadedModel& policy) {
  if (config.data.files.empty())
    open_task(config, policy);
  else
    open_files(config, policy);
}

void Problems::open_task(const Config& config, const LoadedModel& policy) {
  task_ = make_task(config.task);
  if (!config.model.path.empty())
    check_positions(
        config,
        longest_prompt(*task_, config.run.seed, [&](const std::string& text) { return prompt_tokens(policy, text); }),
        policy.model.config().max_position_embeddings);
  const auto stream = [&](Split split) {
    return PromptStream([task = task_, policy, name = config.task.name, seed = config.run.seed,
                         split](uint64_t index) -> std::variant<Prompt, SkippedRow> {
      return task_prompt(*task, policy, name, seed, index, split);
    });
  };
  training_ = stream(Split::kTrain);
  held_out_ = stream(Split::kHeldOut);
  reward_ = std::make_shared<const RewardSum>(make_reward(config.reward, task_check(task_, policy)));
  warnings_ = reward_->source_warnings({config.task.name});
  task_alone_ = config.reward.functions.empty();
}

void Problems::open_files(const Config& config, const LoadedModel& policy) {
  DataOptions options = config.data;
  const int64_t room = policy.model.config().max_position_embeddings - longest_completion(config);
  if (room < 1)
    fail(ExitCode::kBadConfiguration, "rollout.max_new_tokens is ", config.rollout.max_new_tokens,
         ", but the model has ", policy.model.config().max_position_embeddings,
         " positions, which leaves none for a prompt; lower it");
  std::string limit = "data.max_prompt_tokens";
  if (options.max_prompt_tokens == 0 || options.max_prompt_tokens > room) {
    options.max_prompt_tokens = room;
    limit = "what the model's max_position_embeddings, " +
            std::to_string(policy.model.config().max_position_embeddings) + ", leaves beside rollout.max_new_tokens, " +
            std::to_string(longest_completion(config)) + ",";
  }
  reward_ = std::make_shared<const RewardSum>(make_reward(config.reward));
  OpenedDataset opened = open_dataset(
      options, config.run.seed, policy.tokenizer, policy.templates,
      [reward = reward_](const Json& answer, const std::string& source) { return reward->objection(answer, source); },
      limit);
  if (opened.sources) warnings_ = reward_->source_warnings(*opened.sources);
  training_ = std::move(opened.train);
  held_out_ = std::move(opened.held_out);
  notes_ = std::move(opened.notes);
  fingerprint_ = std::move(opened.fingerprint);
  rows_ = opened.rows;
  if (!held_out_ && config.eval.prompts > 0)
    notes_.emplace_back("nothing to evaluate on: neither data.eval_files nor data.held_out is set");
}

std::vector<Prompt> Problems::held_out(int64_t count) {
  if (!held_out_) return {};
  held_out_->seek(0);
  return held_out_->next(count);
}

std::optional<double> Problems::largest_reward() const {
  return task_alone_ ? std::optional(task_->largest_reward()) : std::nullopt;
}

}  // namespace keel
