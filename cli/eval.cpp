#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/run_training.h"
#include "keel/core/console.h"
#include "keel/core/device.h"
#include "keel/core/file.h"
#include "keel/core/interrupt.h"
#include "keel/model/loaded_model.h"
#include "keel/train/checkpoint.h"
#include "keel/train/evaluation.h"
#include "keel/train/problems.h"

namespace keel::cli {
namespace {

struct Arguments {
  std::string config, model, samples;
  std::vector<std::string> overrides;
  bool json = false;
};

/// What --model names, else the newest sound checkpoint of the run, else what the run would start from.
std::string model_path(const Arguments& arguments, const Config& config, Console& messages) {
  if (!arguments.model.empty()) return arguments.model;
  std::vector<std::string> notes;
  const std::filesystem::path newest = newest_checkpoint(std::filesystem::path(config.run.dir) / "checkpoints", notes);
  for (const std::string& note : notes) messages.warning(note);
  if (newest.empty() && !config.model.path.empty()) return config.model.path;
  if (newest.empty())
    fail(ExitCode::kBadInput, "run.dir: ", config.run.dir,
         " has no sound checkpoint to evaluate; name a run with run.dir=FOLDER or a model with --model");
  return newest.string();
}

/// Says which problems are meant; files that are named to evaluate on alone, or that keep none back, are taken whole.
std::string what_to_evaluate_on(Config& config) {
  DataOptions& data = config.data;
  if (data.files.empty() && data.eval_files.empty()) return "the held-out problems of " + config.task.name;
  if (data.held_out > 0) return "the held-out rows of data.files";
  if (data.eval_files.empty()) {
    data.eval_files = data.files;
    return "all rows of data.files";
  }
  data.files = data.eval_files;
  return "data.eval_files";
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

void print_table(const Evaluation& result, const std::string& model, const std::string& problem_set, Console& console) {
  console.line(escape_controls(model) + " on " + problem_set);
  console.line(to_table(result.sources));
  char text[120];
  std::snprintf(text, sizeof(text), "completions: %.1f tokens in the mean, %.1f %% cut off", result.length_mean,
                100 * result.truncated);
  console.line(text);
}

ExitCode evaluate_command(const Arguments& arguments) {
  Console console, messages(stderr);
  ConfigTree tree = read_config(arguments.config);
  apply_overrides(tree, arguments.overrides);
  std::vector<std::string> notes;
  Config config = load_config(tree, notes);
  for (const std::string& note : notes) messages.line(note);
  if (config.eval.prompts == 0)
    fail(ExitCode::kBadConfiguration, "eval.prompts is 0; wanted the number of held-out prompts to evaluate on");

  use_threads(config.run.threads);
  const std::string model = model_path(arguments, config, messages);
  const LoadedModel loaded = load_model(model, open_device(config.run.device));
  config.model.path = model;  // what is checked of a model that was loaded holds for this one
  const std::string problem_set = what_to_evaluate_on(config);
  Problems problems(config, loaded);
  for (const std::string& note : problems.notes()) messages.line(note);
  for (const std::string& warning : problems.warnings()) messages.warning(warning);
  const std::vector<Prompt> prompts = problems.held_out(config.eval.prompts);
  const Evaluation result = evaluate(loaded, prompts, problems.reward(), evaluation_request(config), stop_requested);
  if (result.count < static_cast<int64_t>(prompts.size()))
    fail(ExitCode::kInterrupted, "stopped after ", result.count, " of ", prompts.size(),
         " prompts; nothing was written");
  ScoreTally tally;
  if (const auto first = tally.add(result.scores, result.rollouts.size())) messages.warning(*first);
  for (const std::string& warning : tally.warnings()) messages.warning(warning);
  if (!arguments.samples.empty()) write_atomically(arguments.samples, sample_lines(result, prompts));
  if (arguments.json)
    print_json(result, model);
  else
    print_table(result, model, problem_set, console);
  return ExitCode::kDone;
}

}  // namespace

Action add_eval(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("eval", "pass@k, avg@k and maj@k on held-out problems");
  command
      ->add_option("CONFIG", arguments->config,
                   "Configuration file, YAML or JSON; the sections data or task, reward and eval")
      ->required();
  command->add_option("OVERRIDES", arguments->overrides, "key=value settings that win over the file");
  command->add_option("--model", arguments->model,
                      "A Hugging Face model folder, a GGUF file, or owner/name in the local cache; else the newest "
                      "checkpoint in run.dir, else model.path");
  command->add_option("--samples", arguments->samples, "Write every completion to this file, one JSON object per line");
  command->add_flag("--json", arguments->json, "The numbers as one JSON object");
  return [arguments] { return evaluate_command(*arguments); };
}

}  // namespace keel::cli
