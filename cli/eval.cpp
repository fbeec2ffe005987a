#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "keel/core/console.h"
#include "keel/core/device.h"
#include "keel/core/file.h"
#include "keel/core/interrupt.h"
#include "keel/model/loaded_model.h"
#include "keel/task/tasks.h"
#include "keel/train/checkpoint.h"
#include "keel/train/evaluation.h"

namespace keel::cli {
namespace {

struct Arguments {
  std::string config, model, samples;
  std::vector<std::string> overrides;
  bool json = false;
};

/// What --model names, else the newest sound checkpoint of the run.
std::string model_path(const Arguments& arguments, const Config& config, Console& messages) {
  if (!arguments.model.empty()) return arguments.model;
  std::vector<std::string> notes;
  const std::filesystem::path newest = newest_checkpoint(std::filesystem::path(config.run.dir) / "checkpoints", notes);
  for (const std::string& note : notes) messages.warning(note);
  if (newest.empty())
    fail(ExitCode::kBadInput, "run.dir: ", config.run.dir,
         " has no sound checkpoint to evaluate; name a run with run.dir=FOLDER or a model with --model");
  return newest.string();
}

/// The held-out problems, through the model's chat template where it has one.
std::vector<Prompt> held_out_prompts(const LoadedModel& loaded, const Task& task, const Config& config) {
  std::vector<Prompt> prompts;
  for (int64_t i = 0; i < config.eval.prompts; ++i) {
    const Problem problem = task.problem(config.run.seed, static_cast<uint64_t>(i), Split::kHeldOut);
    prompts.push_back(
        {.id = static_cast<uint64_t>(i),
         .tokens = loaded.templates.empty()
                       ? encode_text(loaded, problem.prompt)
                       : encode_chat(loaded, Json::array({{{"role", "user"}, {"content", problem.prompt}}})),
         .text = problem.prompt,
         .source = config.task.name,
         .answer = problem.answer});
  }
  return prompts;
}

std::string sample_lines(const Evaluation& result, const std::vector<Prompt>& prompts) {
  std::string lines;
  for (const Rollout& rollout : result.rollouts)
    lines +=
        evaluation_sample(prompts[rollout.prompt], rollout).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  return lines;
}

void print_json(const Evaluation& result, const std::string& model) {
  const Json tree = {{"model", model},
                     {"sources", to_json(result.sources)},
                     {"length_mean", result.length_mean},
                     {"truncated", result.truncated}};
  std::printf("%s\n", tree.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

void print_table(const Evaluation& result, const std::string& model, const Config& config, Console& console) {
  console.line(escape_controls(model) + " on the held-out problems of " + config.task.name);
  console.line(to_table(result.sources));
  char text[120];
  std::snprintf(text, sizeof(text), "completions: %.1f tokens in the mean, %.1f %% cut off", result.length_mean,
                100 * result.truncated);
  console.line(text);
}

ExitCode evaluate_command(const Arguments& arguments) {
  Console console, messages(stderr);
  ConfigTree tree = read_config(arguments.config);
  for (const std::string& assignment : arguments.overrides) apply_override(tree, assignment);
  std::vector<std::string> notes;
  const Config config = load_config(tree, notes);
  for (const std::string& note : notes) messages.line(note);
  if (config.eval.prompts == 0)
    fail(ExitCode::kBadConfiguration, "eval.prompts is 0; wanted the number of held-out prompts to evaluate on");

  use_threads(config.run.threads);
  const std::string model = model_path(arguments, config, messages);
  const LoadedModel loaded = load_model(model, open_device(config.run.device));
  const std::unique_ptr<Task> task = make_task(config.task);
  const std::vector<Prompt> prompts = held_out_prompts(loaded, *task, config);
  EvaluationRequest request = evaluation_request(
      config, config.rollout.max_new_tokens > 0 ? config.rollout.max_new_tokens : task->completion_limit());
  request.stop_ids = loaded.stop_ids;
  const RewardFunction reward = [&](const Prompt& prompt, std::string_view completion) {
    return task->check({prompt.text, prompt.answer}, completion);
  };
  const Evaluation result = evaluate(loaded.model, loaded.tokenizer, prompts, reward, request, stop_requested);
  if (result.count < config.eval.prompts)
    fail(ExitCode::kInterrupted, "stopped after ", result.count, " of ", config.eval.prompts,
         " prompts; nothing was written");
  if (!arguments.samples.empty()) write_atomically(arguments.samples, sample_lines(result, prompts));
  if (arguments.json)
    print_json(result, model);
  else
    print_table(result, model, config, console);
  return ExitCode::kDone;
}

}  // namespace

Action add_eval(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("eval", "pass@k, avg@k and maj@k on the held-out problems of a task");
  command->add_option("CONFIG", arguments->config, "Configuration file, YAML or JSON; the sections task and eval")
      ->required();
  command->add_option("OVERRIDES", arguments->overrides, "key=value settings that win over the file");
  command->add_option("--model", arguments->model,
                      "A Hugging Face model folder, a GGUF file, or owner/name in the local cache; else the newest "
                      "checkpoint in run.dir");
  command->add_option("--samples", arguments->samples, "Write every completion to this file, one JSON object per line");
  command->add_flag("--json", arguments->json, "The numbers as one JSON object");
  return [arguments] { return evaluate_command(*arguments); };
}

}  // namespace keel::cli
