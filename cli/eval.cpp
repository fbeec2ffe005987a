#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/run_description.h"
#include "cli/run_training.h"
#include "cli/text_generator.h"
#include "keel/core/console.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/core/files/line_reader.h"
#include "keel/core/files/replaceable.h"
#include "keel/core/interrupt.h"
#include "keel/core/options/read_config.h"
#include "keel/core/shell_words.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"
#include "keel/data/dataset.h"
#include "keel/evaluation/evaluation.h"
#include "keel/model/folder/adapter_folder.h"
#include "keel/model/loaded_model.h"
#include "keel/record/run_ownership.h"
#include "keel/train/checkpoint/checkpoint.h"
#include "keel/train/checkpoint/run_models.h"
#include "keel/train/config/evaluation_request.h"
#include "keel/train/start/prompt_sources.h"
#include "keel/train/start/starting_model.h"

namespace keel::cli {
namespace {

struct EvalArguments {
  std::string config, model, adapter, samples;
  std::vector<std::string> overrides;
  bool json = false, quiet = false;
};

struct EvaluatedModel {
  std::string name;
  LoadedModel model;
  int64_t updates = 0;  // optimizer updates of a checkpoint
};

/// Rejects a flag and a setting with different values for the same thing.
void reject_conflict(const std::string& flag, const char* name, const std::string& value, const char* key) {
  if (!flag.empty() && flag != value)
    fail(ExitCode::kBadConfiguration, kCommandLine, ": ", key, " is ", value, " and ", name, " is ", flag,
         "; keep one of them");
}

/// Treats model.path and lora.adapter on the command line like the flags. Returns whether to evaluate the
/// configuration's starting model instead of a checkpoint of its run.
bool merge_model_settings(EvalArguments& arguments, const ConfigTree& tree, Config& config) {
  const bool model_set = !command_line_name(tree, "model.path").empty(),
             adapter_set = !command_line_name(tree, "lora.adapter").empty();
  if (model_set) reject_conflict(arguments.model, "--model", config.model.path, "model.path");
  if (adapter_set) reject_conflict(arguments.adapter, "--adapter", config.lora.adapter, "lora.adapter");
  if (adapter_set) arguments.adapter = config.lora.adapter;
  if (!arguments.adapter.empty()) config.lora.adapter = arguments.adapter;
  if (!arguments.adapter.empty() && arguments.model.empty() && config.model.path.empty())
    fail(ExitCode::kBadConfiguration, "the adapter ", arguments.adapter, " has no base model; name it with --model");
  return arguments.model.empty() && (model_set || !arguments.adapter.empty());
}

/// Rejects sampling settings of training on the command line, which evaluations ignore.
void reject_training_sampling(const ConfigTree& tree) {
  const std::pair<const char*, const char*> fixes[] = {
      {"rollout.temperature", "set eval.temperature instead"},
      {"rollout.samples_per_prompt", "set eval.samples instead"},
      {"rollout.top_k", "set eval.top_k instead"},
      {"rollout.top_p", "set eval.top_p instead"},
      {"rollout.min_p", "an evaluation has no min_p; remove it"},
      {"rollout.weights", "an evaluation samples with the model's weights; remove it"},
      {"rollout.logit_noise", "an evaluation adds no noise to the logits; remove it"},
      {"rollout.staleness", "an evaluation samples with the current weights; remove it"},
      {"rollout.dynamic_sampling", "an evaluation counts every prompt, whatever its rewards; remove it"},
      {"rollout.max_batches", "an evaluation samples every prompt once; remove it"},
      {"rollout.bitwise", "an evaluation has no trainer to match; remove it"}};
  for (const auto& [setting, fix] : fixes)
    if (const std::string name = command_line_name(tree, setting); !name.empty())
      fail(ExitCode::kBadConfiguration, kCommandLine, ": ", name, " is ",
           name == setting ? "" : std::string(setting) + ", ", "a setting of training: ", fix);
}

/// Rejects data.files on the command line if the configuration has data.eval_files.
void reject_training_files(const ConfigTree& tree, const Config& config) {
  const std::string name = command_line_name(tree, "data.files");
  if (!name.empty() && !config.data.eval_files.empty() && command_line_name(tree, "data.eval_files").empty())
    fail(ExitCode::kBadConfiguration, kCommandLine, ": ", name,
         " is only read by training, since the configuration has data.eval_files. Fix: set data.eval_files");
}

/// Sets run.dir to the folder of a moved or copied run.
void update_moved_run_dir(const std::string& file, const ConfigTree& tree, Config& config, Console& messages) {
  const auto folder = find_moved_run(file, tree, config);
  if (!folder) return;
  messages.line("run.dir of " + file + " is " + config.run.dir + "; using the run that the file is in, " +
                folder->string());
  config.run.dir = folder->string();
}

std::string describe_with_adapter(const std::string& model, const std::string& adapter) {
  return adapter.empty() ? model : model + " with the adapter " + adapter;
}

/// Warns if the chat template variables differ from those of the model's training run.
void warn_other_template_kwargs(const std::string& model, const Config& config, Console& messages) {
  const std::vector<std::string> kwargs = read_chat_settings(model).chat_template_kwargs;
  if (kwargs.empty() || kwargs == config.data.chat_template_kwargs) return;
  const std::string configured = joined(config.data.chat_template_kwargs);
  messages.warning("the run of " + model + " set the chat template variables " + joined(kwargs) +
                   ", but this configuration " + (configured.empty() ? "sets none" : "sets " + configured) +
                   "; data.chat_template_kwargs=[" + joined(kwargs, ",") + "] gives the prompts of training");
}

/// Loads a model by name, with the adapter of --adapter.
EvaluatedModel load_named_model(const std::string& name, const EvalArguments& arguments, const Config& config,
                                const LoadOptions& options, Console& messages) {
  warn_other_template_kwargs(name, config, messages);
  if (config.model.random_weights) messages.line("model.random_weights is ignored: evaluating the weights of " + name);
  const std::string adapter = resolve_adapter(arguments.adapter, &messages);
  LoadedModel model = load_trained_model(name, adapter, options, messages);
  if (adapter.empty()) return {name, std::move(model), is_checkpoint(name) ? load_state(name).updates : 0};
  return {describe_with_adapter(name, adapter), std::move(model)};
}

/// Rejects a run folder that does not exist: the numbers would be those of the model before training.
void require_run_folder(const Config& config) {
  if (is_folder(config.run.dir)) return;
  const std::string& start = config.model.path;
  fail(ExitCode::kBadInput, "run.dir: there is no folder ", config.run.dir, ", so there is no checkpoint to evaluate. ",
       "Fix: name a run with run.dir=FOLDER or a model with --model MODEL",
       start.empty() ? "" : "; model.path=" + shell_word(start) + " evaluates the model before training");
}

/// Loads the model of --model, else the newest valid checkpoint of the run, else the run's starting model.
EvaluatedModel load_evaluated_model(const EvalArguments& arguments, Config& config, const LoadOptions& options,
                                    bool use_starting_model, Console& messages) {
  std::string name = resolve_model(arguments.model, &messages);
  if (!name.empty() && arguments.adapter.empty() && !config.lora.adapter.empty())
    messages.line("lora.adapter of the configuration is not applied to " + name + "; use --adapter");
  if (name.empty() && !use_starting_model) {
    std::vector<std::string> notes;
    name = newest_checkpoint(std::filesystem::path(config.run.dir) / "checkpoints", notes).string();
    for (const std::string& note : notes) messages.warning(note);
  }
  if (!name.empty()) return load_named_model(name, arguments, config, options, messages);
  if (config.model.path.empty())
    fail(ExitCode::kBadInput, "run.dir: ", config.run.dir,
         " has no valid checkpoint to evaluate; name a run with run.dir=FOLDER or a model with --model");
  if (!use_starting_model) messages.line(config.run.dir + " has no checkpoint: evaluating the model before training");
  config.model.path = resolve_model(config.model.path, &messages);
  config.lora.adapter = resolve_adapter(config.lora.adapter, &messages);
  LoadedModel start = load_starting_model(config, options);
  add_starting_adapter(start, config);
  return {describe_with_adapter(config.model.path + (config.model.random_weights ? " with random weights" : ""),
                                config.lora.adapter),
          std::move(start)};
}

/// Chooses the prompts and describes them. Without data.held_out, all rows of the files are evaluated, and
/// PromptSources needs these files in both lists.
std::string choose_prompts(Config& config) {
  DataOptions& data = config.data;
  if (data.files.empty() && data.eval_files.empty()) return "the held-out problems of " + config.task.name;
  if (data.held_out > 0) return "the held-out rows of data.files";
  if (data.eval_files.empty()) {
    data.eval_files = data.files;
    return "data.files, the training rows";
  }
  data.files = data.eval_files;
  return "data.eval_files";
}

/// Describes how many of the rows are evaluated; empty for built-in tasks, which generate any number.
std::string describe_extent(const HeldOutPrompts& held_out) {
  if (const std::string part = held_out.extent(); !part.empty()) return ": " + part;
  return held_out.rows > 0 ? ": all " + counted(static_cast<int64_t>(held_out.rows), "row") : "";
}

std::string samples_jsonl(const Evaluation& result, const std::vector<Prompt>& prompts) {
  std::string lines;
  for (size_t i = 0; i < result.rollouts.size(); ++i)
    lines +=
        json_line(evaluation_sample(prompts[result.rollouts[i].prompt], result.rollouts[i], result.verdicts[i])) + "\n";
  return lines;
}

/// Fails if no completion was scored, since all averages would be undefined.
void require_rewards(const Evaluation& result) {
  if (result.has_rewards()) return;
  const std::vector<std::string>& failures = result.scores.failures;
  fail(failures.empty() ? ExitCode::kBadConfiguration : ExitCode::kRewardProgramFailed,
       "no reward function scored any of the ", result.verdicts.size(), " completions, so there is nothing to report; ",
       failures.empty() ? "name a function in reward.functions that applies to these prompts" : failures.front());
}

/// Describes when a completion counts as solved if no function checks its answer; empty if all answers are checked.
std::string describe_solved(const Evaluation& result) {
  const auto by_reward = [](const Verdict& verdict) { return verdict.by_reward; };
  if (std::none_of(result.verdicts.begin(), result.verdicts.end(), by_reward)) return "";
  const bool all = std::all_of(result.verdicts.begin(), result.verdicts.end(), by_reward);
  return "a reward of at least " + short_number(kSolvedThreshold) +
         (all ? ", since no function checks answers" : " for prompts whose answers no function checks");
}

void print_json(const Evaluation& result, const EvaluationRequest& request, const std::string& model,
                const std::string& problem_set, const HeldOutPrompts& held_out, const Json& prompt_limit) {
  Json tree = {{"model", model},
               {"rows", problem_set},
               {"samples", request.samples},
               {"temperature", request.temperature},
               {"top_k", request.filter.top_k},
               {"top_p", request.filter.top_p},
               {"min_p", request.filter.min_p},
               {"max_new_tokens", request.max_new_tokens},
               {"avg_is", result.mean_name()},
               {"solved_is", describe_solved(result).empty() ? "right answer" : describe_solved(result)},
               {"all", to_json(result.statistics.all)},
               {"sources", Json::object()},
               {"left_out",
                {{"too_long", held_out.skipped.too_long},
                 {"bad_rows", held_out.skipped.bad},
                 {"max_prompt_tokens", prompt_limit},
                 {"rows_behind_eval_prompts", held_out.remaining_rows},
                 {"files_without", held_out.unused_files}}},
               {"length_mean", result.length_mean},
               {"truncated", result.truncated}};
  for (const SourceStatistics& source : result.statistics.sources) tree["sources"][source.source] = to_json(source);
  std::printf("%s\n", escape_json_controls(tree.dump(2, ' ', false, Json::error_handler_t::replace)).c_str());
}

/// Describes the sampling settings.
std::string describe_sampling(const EvaluationRequest& request, bool rows_repeat) {
  const auto& [top_k, top_p, min_p] = request.filter;
  return counted(request.samples, "sample") + (rows_repeat ? " of each row, " : " of each prompt, ") +
         describe_temperature(request.temperature, request.samples) +
         (top_k > 0 ? ", top_k " + std::to_string(top_k) : "") + (top_p < 1 ? ", top_p " + short_number(top_p) : "") +
         (min_p > 0 ? ", min_p " + short_number(min_p) : "") + ", at most " + counted(request.max_new_tokens, "token");
}

void print_table(const Evaluation& result, const EvaluationRequest& request, const std::string& model,
                 const std::string& problem_set, Console& console) {
  console.line(model + " on " + problem_set);
  console.line(describe_sampling(request, result.statistics.all.prompts < result.count));
  console.line(to_table(result.statistics));
  const std::string average = result.statistics.all.measures.front().name;
  console.line(average + (result.is_accuracy ? " is the accuracy: the fraction of correct answers"
                                             : " is the mean reward, not an accuracy"));
  if (const std::string by_reward = describe_solved(result); !by_reward.empty())
    console.line("solved, for pass@k and maj@k: " + by_reward);
  char text[120];
  std::snprintf(text, sizeof(text), "completions: %.1f tokens on average, %.1f %% cut off", result.length_mean,
                100 * result.truncated);
  console.line(text);
  if (const int64_t unscored = result.statistics.all.unscored)
    console.line(std::to_string(unscored) + " of " + std::to_string(result.verdicts.size()) +
                 " completions skipped: no reward function scored them");
}

HeldOutPrompts held_out_prompts(PromptSources& prompt_sources, int64_t count, Console& messages) {
  HeldOutPrompts held_out = prompt_sources.held_out(count);
  if (held_out.prompts.empty())
    fail(ExitCode::kBadInput,
         "there are no held-out prompts: data.held_out sets no row aside. Fix: raise it, or set data.eval_files");
  if (!held_out.note().empty()) messages.warning(held_out.note());
  return held_out;
}

/// Rejects a number as the file name of --samples, which probably means eval.samples.
void require_samples_file_name(const std::string& samples) {
  if (!samples.empty() && samples.find_first_not_of("0123456789") == std::string::npos)
    fail(ExitCode::kBadConfiguration, "--samples ", samples,
         ": expected the name of a file for the completions. Fix: set eval.samples=", samples,
         " for the number of completions, or write ./", samples, " for a file");
}

constexpr const char* kSamples = "eval --samples";

/// Returns whether an earlier evaluation wrote this file: its first line has the keys of a sample in the same order.
bool holds_samples(const std::filesystem::path& path) {
  constexpr size_t kMaxLine = size_t{64} << 20;
  std::string line;
  LineReader::open(path).next(line, kMaxLine);
  const auto keys = [](const Json& row) {
    std::vector<std::string> names;
    for (const auto& [name, value] : row.items()) names.push_back(name);
    return names;
  };
  const std::optional<Json> row = try_parse_json(line, {.depth = kDataDepth + 1});  // the gold answer may be nested
  return row && row->is_object() && keys(*row) == keys(evaluation_sample({}, {}, {}));
}

/// Checks before the evaluation, which may take hours, that the samples file can be written.
void require_writable_samples(const EvalArguments& arguments) {
  if (arguments.samples.empty()) return;
  require_replaceable(arguments.samples, kSamples, holds_samples);
  const DurableFile probe(arguments.samples);  // fails if the file cannot be written; removes its partial file
}

ExitCode evaluate_command(EvalArguments arguments) {
  Console console, messages(stderr, arguments.quiet);
  require_samples_file_name(arguments.samples);
  arguments.config = config_file(arguments.config);
  const ConfigTree tree = read_settings(arguments.config, arguments.overrides);
  std::vector<std::string> notes;
  reject_training_sampling(tree);
  Config config = load_config(tree, notes, Purpose::kEvaluation);
  reject_training_files(tree, config);
  for (const std::string& note : notes) messages.line(note);
  if (config.eval.prompts == 0)
    fail(ExitCode::kBadConfiguration, "eval.prompts is 0; expected the number of held-out prompts");

  const bool use_starting_model = merge_model_settings(arguments, tree, config);
  const bool evaluates_run = arguments.model.empty() && !use_starting_model;
  if (evaluates_run) update_moved_run_dir(arguments.config, tree, config, messages);

  require_writable_samples(arguments);
  if (evaluates_run) require_run_folder(config);
  const at::Device device = open_run_device(config.run, messages);
  std::string problem_set = choose_prompts(config);
  const at::ScalarType type = resolve_precision(config.run, device);
  auto [name, model, updates] = load_evaluated_model(arguments, config, {device, type}, use_starting_model, messages);
  model.model.set_compute_type(type);
  config.model.path = name;  // later checks test only whether it is empty
  const EvaluationRequest request = evaluation_request(config, model, updates);
  PromptSources prompt_sources(config, model);
  for (const std::string& note : prompt_sources.notes()) messages.line(note);
  for (const std::string& warning : prompt_sources.warnings()) messages.warning(warning);
  const HeldOutPrompts held_out = held_out_prompts(prompt_sources, config.prompts_per_evaluation(), messages);
  problem_set += describe_extent(held_out);
  const std::vector<Prompt>& prompts = held_out.prompts;
  StageMeter meter;
  const Evaluation result = [&, &model = model] {
    const LiveLine live(messages, [&] { return meter.text(); });
    const RolloutEngine engine(SamplingModel({model.model}), model.tokenizer);
    return evaluate(engine, prompts, prompt_sources.reward(), request, stop_requested, &meter);
  }();
  messages.end_progress();
  if (result.count < static_cast<int64_t>(prompts.size()))
    fail(ExitCode::kInterrupted, "stopped after ", result.count, " of ", prompts.size(),
         " prompts; nothing was written");
  ScoreTally tally;
  if (const auto first = tally.add(result.scores, result.rollouts.size())) messages.warning(*first);
  for (const std::string& warning : tally.warnings()) messages.warning(warning);
  require_rewards(result);
  if (!arguments.samples.empty()) {
    require_replaceable(arguments.samples, kSamples, holds_samples);  // it may have appeared meanwhile
    write_atomically(arguments.samples, samples_jsonl(result, prompts));
    messages.line("completions written to " + arguments.samples);
  }
  if (arguments.json)
    print_json(result, request, name, problem_set, held_out,
               prompt_sources.prompt_limit() > 0 ? Json(prompt_sources.prompt_limit()) : Json());
  else
    print_table(result, request, name, problem_set, console);
  return ExitCode::kDone;
}

}  // namespace

CommandHandler add_eval(CommandLine& line) {
  const auto arguments = std::make_shared<EvalArguments>();
  Command command = line.add("eval", "Evaluate on held-out prompts: pass@k, avg@k and maj@k");
  command
      .option(
          "CONFIG", arguments->config,
          "Configuration file, YAML or JSON, with the sections data or task, reward and eval, or the folder of a run")
      .required()
      .files()
      .settings();
  command.option("OVERRIDES", arguments->overrides, "key=value settings that override the file").settings();
  command
      .option(
          "--model", arguments->model,
          "A Hugging Face model folder, a GGUF file, owner/name in the local cache, or the folder of a run (default: "
          "the newest checkpoint in run.dir; a run without a checkpoint: model.path)")
      .files();
  command
      .option("--adapter", arguments->adapter,
              "PEFT adapter (LoRA) folder to apply, or the folder of a run or checkpoint with an adapter")
      .folders();
  command
      .option("--samples", arguments->samples,
              "File for the completions, one JSON object per line (eval.samples is their number)")
      .files();
  command.flag("--json", arguments->json, "Print the metrics as one JSON object");
  command.flag("-q,--quiet", arguments->quiet, "Print only warnings, errors and the metrics");
  return [arguments] { return evaluate_command(*arguments); };
}

}  // namespace keel::cli
