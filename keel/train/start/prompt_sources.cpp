#include "keel/train/start/prompt_sources.h"

#include <algorithm>
#include <functional>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/data/open_dataset.h"
#include "keel/data/problem_indices.h"
#include "keel/data/row_prompt.h"
#include "keel/task/task_table.h"

namespace keel {
namespace {

/// Returns a function that replaces the stop token of a loaded model by the task's.
std::function<std::string(std::string_view)> make_stop_replacer(const LoadedModel& policy) {
  std::vector<std::string> stops;
  for (const int32_t id : policy.stop_ids)
    if (id < policy.tokenizer.size()) stops.push_back(policy.tokenizer.token(id));
  return [stops](std::string_view completion) {
    std::string replaced(completion);
    for (const std::string& stop : stops) {
      if (stop == kEosText || stop.empty() || !completion.ends_with(stop)) continue;
      replaced.resize(completion.size() - stop.size());
      replaced += ' ';
      replaced += kEosText;
      break;
    }
    return replaced;
  };
}

/// Returns whether the model splits a prompt into the same tokens as the task's tokenizer.
bool has_vocabulary(const LoadedModel& policy, const Tokenizer& task, const std::string& prompt) try {
  const std::vector<int32_t> expected = task.encode(prompt), tokens = encode_text(policy, prompt);
  return std::ranges::equal(expected, tokens,
                            [&](int32_t a, int32_t b) { return task.token(a) == policy.tokenizer.token(b); });
} catch (const Error&) {  // a vocabulary without an unknown token
  return false;
}

/// Fails if the task needs its own vocabulary and the model has another one.
void check_vocabulary(const Config& config, const Task& task, const LoadedModel& policy) {
  if (!find_task(config.task.name).own_vocabulary) return;
  const std::string prompt = task.problem(config.run.seed, 0, Split::kTrain).prompt;
  if (!has_vocabulary(policy, task.tokenizer(), prompt))
    fail(ExitCode::kBadConfiguration, "the task ", config.task.name, " (task.name) has its own vocabulary, in which a ",
         "prompt is \"", prompt,
         "\", and the model has another one; set data.files, another task (`keel tasks` lists them), or a model ",
         "trained for ", config.task.name, " of this size",
         config.sft.files.empty() ? "" : "; for supervised training only, set train.steps=0 (`keel sft`)");
}

}  // namespace

PromptSources::PromptSources(const Config& config, const LoadedModel& policy) {
  if (config.data.files.empty())
    open_task(config, policy);
  else
    open_files(config, policy);
}

PromptSources PromptSources::for_run(const Config& config, const LoadedModel& policy) {
  return config.has_rl() ? PromptSources(config, policy) : PromptSources();
}

PromptSources::PromptSources(PromptStream training, RewardSum reward)
    : training_(std::move(training)), reward_(std::make_shared<const RewardSum>(std::move(reward))) {}

void PromptSources::open_task(const Config& config, const LoadedModel& policy) {
  task_ = make_task(config.task);
  check_vocabulary(config, *task_, policy);
  const PromptEncoder encoder(policy.tokenizer, policy.templates);
  const TemplateVariables variables = template_variables(config.data);
  encoder.require_template_variables(variables.kwargs, "data.chat_template_kwargs");
  if (const std::string note = template_variables_note(encoder, variables); !note.empty()) notes_.push_back(note);
  const size_t longest = keel::longest_prompt(
      *task_, config.run.seed, [&](const std::string& text) { return prompt_tokens(policy, text, variables); });
  if (!config.model.path.empty()) check_positions(config, longest, policy.model.config().max_position_embeddings);
  const auto stream = [&](Split split) {
    return PromptStream([task = task_, policy, name = config.task.name, variables, seed = config.run.seed,
                         split](uint64_t index) -> std::variant<Prompt, SkippedRow> {
      const Problem problem = task->problem(seed, index, split);
      return Prompt{.id = index,
                    .tokens = prompt_tokens(policy, problem.prompt, variables),
                    .text = problem.prompt,
                    .source = name,
                    .answer = problem.answer};
    });
  };
  training_ = stream(Split::kTrain);
  held_out_ = stream(Split::kHeldOut);
  const auto replace_stop = make_stop_replacer(policy);
  reward_ = std::make_shared<const RewardSum>(make_reward(
      config.reward,
      [task = task_, replace_stop](const Prompt& prompt, std::string_view completion) {
        return task->check({prompt.text, prompt.answer}, replace_stop(completion));
      },
      [task = task_, replace_stop](std::string_view completion) { return task->answer(replace_stop(completion)); },
      resolve_max_new_tokens(config)));
  warnings_ = reward_->source_warnings({config.task.name});
  task_is_reward_ = config.reward.functions.empty() && config.reward.overlong_buffer == 0;
}

void PromptSources::open_files(const Config& config, const LoadedModel& policy) {
  DataOptions options = config.data;
  const int64_t max_prompt = policy.model.config().max_position_embeddings - resolve_max_new_tokens(config);
  if (max_prompt < 1)
    fail(ExitCode::kBadConfiguration, "rollout.max_new_tokens is ", config.rollout.max_new_tokens,
         ", but the model has ", policy.model.config().max_position_embeddings,
         " positions (max_position_embeddings), which leaves none for a prompt; lower it");
  std::string limit = "data.max_prompt_tokens";
  if (options.max_prompt_tokens == 0 || options.max_prompt_tokens > max_prompt) {
    options.max_prompt_tokens = max_prompt;
    limit = "max_position_embeddings (" + std::to_string(policy.model.config().max_position_embeddings) +
            ") minus rollout.max_new_tokens (" + std::to_string(resolve_max_new_tokens(config)) + ")";
  }
  prompt_limit_ = options.max_prompt_tokens;
  limit_name_ = limit + ", " + std::to_string(prompt_limit_);
  reward_ = std::make_shared<const RewardSum>(make_reward(config.reward, {}, {}, resolve_max_new_tokens(config)));
  OpenedDataset opened = open_dataset(
      options, config.run.seed, policy.tokenizer, policy.templates,
      [reward = reward_](const Json& answer, const std::string& source) {
        return reward->answer_error(answer, source);
      },
      limit);
  if (opened.sources) warnings_ = reward_->source_warnings(*opened.sources);
  if (opened.misses_template)
    warnings_.push_back(
        "data: the prompts are plain texts, so the model's chat template is not used; set data.chat=always to make "
        "them user messages, or data.chat=never to keep them as they are");
  training_ = std::move(opened.train);
  held_out_ = std::move(opened.held_out);
  notes_ = std::move(opened.notes);
  data_ = std::move(opened.identity);
  eval_files_ = std::move(opened.eval_files);
  eval_rows_in_training_ = opened.eval_rows_in_training;
}

uint64_t PromptSources::prompts_per_epoch() const {
  if (!prompts_per_epoch_) prompts_per_epoch_ = training_->survey().items;
  return *prompts_per_epoch_;
}

PromptLengths PromptSources::lengths() const {
  constexpr uint64_t kSample = 1000;
  const uint64_t rows = data_.rows == 0 ? kSample : std::min<uint64_t>(kSample, data_.rows);  // a task has no end
  PromptLengths lengths;
  int64_t prompts = 0, sum = 0;
  PromptStream stream(*training_);
  try {
    for (; prompts < static_cast<int64_t>(rows); ++prompts) {
      const auto tokens = static_cast<int64_t>(stream.next(1)[0].tokens.size());
      lengths.longest = std::max(lengths.longest, tokens);
      sum += tokens;
    }
  } catch (const Error&) {  // with data.bad_rows=stop_late, the step that needs this row reports it
  }
  if (prompts > 0) lengths.mean = static_cast<double>(sum) / static_cast<double>(prompts);
  return lengths;
}

int64_t HeldOutPrompts::longest_prompt() const {
  int64_t longest = 0;
  for (const Prompt& prompt : prompts) longest = std::max(longest, static_cast<int64_t>(prompt.tokens.size()));
  return longest;
}

HeldOutPrompts PromptSources::held_out(int64_t count) {
  if (!held_out_) return {};
  const SkippedCounts before = held_out_->skipped();
  held_out_->seek(0);
  HeldOutPrompts result{
      .prompts = held_out_->next(count), .skipped = held_out_->skipped(), .prompt_limit = limit_name_};
  result.skipped.too_long -= before.too_long;
  result.skipped.bad -= before.bad;
  const uint64_t position = held_out_->position();
  if (eval_files_) {
    result.rows = eval_files_->rows();
    result.unused_files = eval_files_->files_after(position);
  }
  if (task_ == nullptr) result.remaining_rows = (eval_files_ ? result.rows : data_.rows) - position;
  if (result.prompts.empty() && !result.note().empty())
    fail(ExitCode::kBadInput, "there is no prompt to evaluate on: ", result.note());
  return result;
}

std::string HeldOutPrompts::note() const {
  const std::string text = skipped_rows_text(skipped, "prompt", prompt_limit);
  return text.empty() ? text : text + "; the first is " + skipped.first;
}

std::string HeldOutPrompts::extent() const {
  std::vector<std::string> reasons;
  if (remaining_rows > 0) reasons.push_back("eval.prompts");
  if (skipped.too_long > 0) reasons.push_back(std::to_string(skipped.too_long) + " too long");
  if (skipped.bad > 0) reasons.push_back(std::to_string(skipped.bad) + " bad");
  const std::vector<size_t> indices = problem_indices(prompts);
  const size_t problems = indices.empty() ? 0 : 1 + *std::ranges::max_element(indices);
  const bool repeats = problems < prompts.size();
  const std::string count = std::to_string(prompts.size()), reason_list = " (" + joined(reasons) + ")",
                    distinct_problems = std::to_string(problems) + (problems == 1 ? " problem" : " problems");
  if (reasons.empty()) return repeats ? distinct_problems + " in " + count + " rows" : "";
  const std::string which = rows == 0 ? (remaining_rows > 0 ? "the first " : "") + count + " of them" + reason_list
                                      : count + " of " + std::to_string(rows) + " rows" + reason_list;
  return which + (repeats ? ", " + distinct_problems : "") +
         (rows == 0 || unused_files.empty() ? "" : "; none of " + joined(unused_files));
}

std::string PromptSources::describe_skipped(const SkippedCounts& skipped) const {
  return skipped_rows_text(skipped, "prompt", limit_name_);
}

std::optional<RewardRange> PromptSources::reward_range() const {
  return task_is_reward_ ? std::optional<RewardRange>({.lowest = 0, .highest = task_->max_reward()}) : std::nullopt;
}

std::vector<int32_t> prompt_tokens(const LoadedModel& policy, const std::string& text,
                                   const TemplateVariables& variables) {
  if (policy.templates.empty()) return encode_text(policy, text);
  return encode_chat(policy, Json::array({{{"role", "user"}, {"content", text}}}), variables);
}

std::string skipped_rows_text(const SkippedCounts& skipped, const std::string& items, const std::string& limit) {
  const auto counted = [](uint64_t count, const std::string& what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s") + " skipped: ";
  };
  std::string text;
  if (skipped.too_long > 0) text = counted(skipped.too_long, items) + "longer than " + limit;
  if (skipped.bad > 0) text += (text.empty() ? "" : "; ") + counted(skipped.bad, "row") + "bad (data.bad_rows: skip)";
  return text;
}

}  // namespace keel
