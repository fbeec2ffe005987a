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

struct Evaluated {
  std::string name;
  LoadedModel model;
  int64_t updates = 0;  // that a checkpoint's weights have seen
};

/// Two names for one thing are one too many, unless they are the same.
void refuse_both(const std::string& flag, const char* name, const std::string& value, const char* key) {
  if (!flag.empty() && flag != value)
    fail(ExitCode::kBadConfiguration, kCommandLine, ": ", key, " is ", value, " and ", name, " is ", flag,
         "; keep one of them");
}

/// A model or an adapter that is typed as a setting is meant as much as one behind a flag. Returns whether it is what
/// the configuration starts from that is meant, and not a checkpoint of its run.
bool follow_what_was_typed(EvalArguments& arguments, const ConfigTree& tree, Config& config) {
  const bool model_typed = !command_line_name(tree, "model.path").empty(),
             adapter_typed = !command_line_name(tree, "lora.adapter").empty();
  if (model_typed) refuse_both(arguments.model, "--model", config.model.path, "model.path");
  if (adapter_typed) refuse_both(arguments.adapter, "--adapter", config.lora.adapter, "lora.adapter");
  if (adapter_typed) arguments.adapter = config.lora.adapter;
  if (!arguments.adapter.empty()) config.lora.adapter = arguments.adapter;
  if (!arguments.adapter.empty() && arguments.model.empty() && config.model.path.empty())
    fail(ExitCode::kBadConfiguration, "the adapter ", arguments.adapter,
         " has no model to be put on; name it with --model");
  return arguments.model.empty() && (model_typed || !arguments.adapter.empty());
}

/// How training samples is nothing to an evaluation; who types it means the evaluation.
void refuse_sampling_of_training(const ConfigTree& tree) {
  const std::pair<const char*, const char*> read_instead[] = {
      {"rollout.temperature", "an evaluation samples at eval.temperature; set that"},
      {"rollout.samples_per_prompt", "an evaluation samples eval.samples completions of a prompt; set that"},
      {"rollout.weights", "an evaluation samples with the model's own weights; remove it"},
      {"rollout.logit_noise", "an evaluation puts no noise on the logits; remove it"},
      {"rollout.staleness", "an evaluation samples with the model as it is; remove it"},
      {"rollout.dynamic_sampling", "an evaluation counts every prompt, whatever its rewards; remove it"},
      {"rollout.max_batches", "an evaluation samples every prompt once; remove it"},
      {"rollout.bitwise", "an evaluation has no trainer beside it to be equal to; remove it"}};
  for (const auto& [option, way_out] : read_instead)
    if (const std::string name = command_line_name(tree, option); !name.empty())
      fail(ExitCode::kBadConfiguration, kCommandLine, ": ", name, " is ",
           name == option ? "" : std::string(option) + ", ", "how training samples: ", way_out);
}

/// Files to train on are nothing to an evaluation that has its own.
void refuse_files_of_training(const ConfigTree& tree, const Config& config) {
  const std::string name = command_line_name(tree, "data.files");
  if (!name.empty() && !config.data.eval_files.empty() && command_line_name(tree, "data.eval_files").empty())
    fail(ExitCode::kBadConfiguration, kCommandLine, ": ", name, " is what training reads, and the configuration has ",
         "data.eval_files, which an evaluation reads; set data.eval_files");
}

/// A run's own configuration means the run that it lies in, wherever that was moved or copied to, unless a folder is
/// typed.
void follow_moved_run(const std::string& file, const ConfigTree& tree, Config& config, Console& messages) {
  const auto folder = run_around(file, tree, config);
  if (!folder) return;
  messages.line("run.dir of " + file + " is " + config.run.dir + "; the run is taken that the file lies in, " +
                folder->string());
  config.run.dir = folder->string();
}

std::string with_adapter(const std::string& model, const std::string& adapter) {
  return adapter.empty() ? model : model + " with the adapter " + adapter;
}

/// An evaluation goes by its configuration; prompts that are not those of training are told.
void note_other_words(const std::string& model, const Config& config, Console& messages) {
  const std::vector<std::string> words = read_chat_settings(model).chat_template_kwargs;
  if (words.empty() || words == config.data.chat_template_kwargs) return;
  const std::string ours = joined(config.data.chat_template_kwargs), of_run = joined(words, ",");
  messages.warning("the run of " + model + " told the chat template " + joined(words) + ", and this configuration " +
                   (ours.empty() ? "tells it nothing" : "tells it " + ours) + "; data.chat_template_kwargs=[" + of_run +
                   "] gives the prompts of training");
}

/// A model by its name, with the adapter that was asked for beside it.
Evaluated named_model(const std::string& name, const EvalArguments& arguments, const Config& config,
                      Console& messages) {
  note_other_words(name, config, messages);
  if (config.model.random_weights) messages.line("the weights are those of " + name + ", not model.random_weights");
  LoadedModel model = load_verified_model(name, open_device(config.run.device));
  if (arguments.adapter.empty()) return {name, std::move(model), is_checkpoint(name) ? load_state(name).updates : 0};
  const std::string adapter = resolve_adapter(arguments.adapter, &messages);
  require_adapter_base(name, adapter, "--adapter");
  read_adapter(adapter, model.model);
  return {with_adapter(name, adapter), std::move(model)};
}

/// What --model names, else the newest sound checkpoint of the run, else what the run would start from.
Evaluated model_to_evaluate(const EvalArguments& arguments, Config& config, bool from_start, Console& messages) {
  std::string name = resolve_model(arguments.model, &messages);
  if (!name.empty() && arguments.adapter.empty() && !config.lora.adapter.empty())
    messages.line("lora.adapter of the configuration is not put on " + name + "; --adapter does that");
  if (name.empty() && !from_start) {
    std::vector<std::string> notes;
    name = newest_checkpoint(std::filesystem::path(config.run.dir) / "checkpoints", notes).string();
    for (const std::string& note : notes) messages.warning(note);
  }
  if (!name.empty()) return named_model(name, arguments, config, messages);
  if (config.model.path.empty())
    fail(ExitCode::kBadInput, "run.dir: ", config.run.dir,
         " has no sound checkpoint to evaluate; name a run with run.dir=FOLDER or a model with --model");
  if (!from_start) messages.line(config.run.dir + " has no checkpoint: this is the model before training");
  config.model.path = resolve_model(config.model.path, &messages);
  config.lora.adapter = resolve_adapter(config.lora.adapter, &messages);
  LoadedModel start = load_starting_model(config, open_device(config.run.device));
  add_starting_adapter(start, config);
  return {with_adapter(config.model.path + (config.model.random_weights ? " with random weights" : ""),
                       config.lora.adapter),
          std::move(start)};
}

/// Says which problems are meant; files that are named to evaluate on alone, or that keep none back, are taken whole.
std::string what_to_evaluate_on(Config& config) {
  DataOptions& data = config.data;
  if (data.files.empty() && data.eval_files.empty()) return "the held-out problems of " + config.task.name;
  if (data.held_out > 0) return "the held-out rows of data.files";
  const bool has_own = !data.eval_files.empty();
  (has_own ? data.files : data.eval_files) = has_own ? data.eval_files : data.files;
  return has_own ? "data.eval_files" : "data.files, the rows that training reads";
}

/// Of a built-in task there is no end.
std::string extent_of(const HeldOutPrompts& held_out) {
  if (const std::string part = held_out.extent(); !part.empty()) return ": " + part;
  return held_out.rows > 0 ? ": all " + counted(static_cast<int64_t>(held_out.rows), "row") : "";
}

std::string sample_lines(const Evaluation& result, const std::vector<Prompt>& prompts) {
  std::string lines;
  for (size_t i = 0; i < result.rollouts.size(); ++i)
    lines +=
        json_line(evaluation_sample(prompts[result.rollouts[i].prompt], result.rollouts[i], result.verdicts[i])) + "\n";
  return lines;
}

/// Numbers that rest on nothing are not printed.
void require_judged(const Evaluation& result) {
  if (result.has_rewards()) return;
  const std::vector<std::string>& failures = result.scores.failures;
  fail(failures.empty() ? ExitCode::kBadConfiguration : ExitCode::kRewardProgramFailed,
       "no reward function judged any of the ", result.verdicts.size(), " completions, so there is nothing to report; ",
       failures.empty() ? "name a function in reward.functions that applies to these prompts" : failures.front());
}

/// What makes a completion solved where no function judges answers; empty where one always does.
std::string solved_by_reward(const Evaluation& result) {
  const auto by_reward = [](const Verdict& verdict) { return verdict.by_reward; };
  if (std::none_of(result.verdicts.begin(), result.verdicts.end(), by_reward)) return "";
  const bool all = std::all_of(result.verdicts.begin(), result.verdicts.end(), by_reward);
  return "a reward of at least " + short_number(kSolvedThreshold) +
         (all ? ", as no function here judges answers" : " for prompts whose answers no function judges");
}

void print_json(const Evaluation& result, const EvaluationRequest& request, const std::string& model,
                const std::string& problem_set, const HeldOutPrompts& held_out, const Json& prompt_limit) {
  Json tree = {{"model", model},
               {"rows", problem_set},
               {"samples", request.samples},
               {"temperature", request.temperature},
               {"top_k", request.truncation.top_k},
               {"top_p", request.truncation.top_p},
               {"min_p", request.truncation.min_p},
               {"max_new_tokens", request.max_new_tokens},
               {"avg_is", result.mean_name()},
               {"solved_is", solved_by_reward(result).empty() ? "right answer" : solved_by_reward(result)},
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

/// How the completions were sampled: numbers of one temperature say little about another.
std::string sampling_text(const EvaluationRequest& request, bool rows_repeat) {
  const auto& [top_k, top_p, min_p] = request.truncation;
  return counted(request.samples, "sample") + (rows_repeat ? " of each row, " : " of each prompt, ") +
         sampling_words(request.temperature, request.samples) + (top_k > 0 ? ", top_k " + std::to_string(top_k) : "") +
         (top_p < 1 ? ", top_p " + short_number(top_p) : "") + (min_p > 0 ? ", min_p " + short_number(min_p) : "") +
         ", at most " + counted(request.max_new_tokens, "token");
}

void print_table(const Evaluation& result, const EvaluationRequest& request, const std::string& model,
                 const std::string& problem_set, Console& console) {
  console.line(model + " on " + problem_set);
  console.line(sampling_text(request, result.statistics.all.prompts < result.count));
  console.line(to_table(result.statistics));
  const std::string average = result.statistics.all.measures.front().name;
  console.line(average + (result.is_accuracy ? " is the accuracy: the share of right answers"
                                             : " is the mean reward, which is no share of right answers"));
  if (const std::string by_reward = solved_by_reward(result); !by_reward.empty())
    console.line("solved, for pass@k and maj@k: " + by_reward);
  char text[120];
  std::snprintf(text, sizeof(text), "completions: %.1f tokens on average, %.1f %% cut off", result.length_mean,
                100 * result.truncated);
  console.line(text);
  if (const int64_t unscored = result.statistics.all.unscored)
    console.line(std::to_string(unscored) + " of " + std::to_string(result.verdicts.size()) +
                 " completions left out: no reward function judged them");
}

HeldOutPrompts held_out_prompts(PromptSources& prompt_sources, int64_t count, Console& messages) {
  HeldOutPrompts held_out = prompt_sources.held_out(count);
  if (held_out.prompts.empty())
    fail(
        ExitCode::kBadInput,
        "there is nothing to evaluate on: data.held_out keeps no row back; raise it, or name files in data.eval_files");
  if (!held_out.note().empty()) messages.warning(held_out.note());
  return held_out;
}

/// A bare number behind --samples is meant as how many.
void require_file_of_samples(const std::string& samples) {
  if (!samples.empty() && samples.find_first_not_of("0123456789") == std::string::npos)
    fail(ExitCode::kBadConfiguration, "--samples ", samples,
         ": it names the file that every completion is written to; ", "set eval.samples=", samples,
         " for the number of completions, or write ./", samples, " for a file");
}

constexpr const char* kSamples = "eval --samples";

/// Whether an earlier evaluation wrote this file: its first line has what a sample has, in the same order.
bool holds_samples(const std::filesystem::path& path) {
  constexpr size_t kLongest = size_t{64} << 20;
  std::string line;
  LineReader::open(path).next(line, kLongest);
  const auto names = [](const Json& row) {
    std::vector<std::string> all;
    for (const auto& [name, value] : row.items()) all.push_back(name);
    return all;
  };
  const std::optional<Json> row = try_parse_json(line, {.depth = kDataDepth + 1});  // its gold answer is a row's
  return row && row->is_object() && names(*row) == names(evaluation_sample({}, {}, {}));
}

/// Told before the evaluation, which may take hours: that its samples would be written over something, or nowhere.
void require_place_for_samples(const EvalArguments& arguments) {
  if (arguments.samples.empty()) return;
  require_replaceable(arguments.samples, kSamples, holds_samples);
  const DurableFile can_be_written(arguments.samples);
}

ExitCode evaluate_command(EvalArguments arguments) {
  Console console, messages(stderr, arguments.quiet);
  require_file_of_samples(arguments.samples);
  const ConfigTree tree = read_settings(arguments.config, arguments.overrides);
  std::vector<std::string> notes;
  refuse_sampling_of_training(tree);
  Config config = load_config(tree, notes, Purpose::kEvaluation);
  refuse_files_of_training(tree, config);
  for (const std::string& note : notes) messages.line(note);
  if (config.eval.prompts == 0)
    fail(ExitCode::kBadConfiguration, "eval.prompts is 0; expected the number of held-out prompts to evaluate on");

  const bool from_start = follow_what_was_typed(arguments, tree, config);
  if (arguments.model.empty() && !from_start) follow_moved_run(arguments.config, tree, config, messages);

  require_place_for_samples(arguments);
  use_threads(config.run.threads);
  std::string problem_set = what_to_evaluate_on(config);
  auto [model, loaded, updates] = model_to_evaluate(arguments, config, from_start, messages);
  const MasterWeights masters = loaded.model.set_compute_type(resolve_precision(config.run, loaded.model.device()));
  config.model.path = model;  // what is checked of a model that was loaded holds for this one
  const EvaluationRequest request = evaluation_request(config, loaded, updates);
  PromptSources prompt_sources(config, loaded);
  for (const std::string& note : prompt_sources.notes()) messages.line(note);
  for (const std::string& warning : prompt_sources.warnings()) messages.warning(warning);
  const HeldOutPrompts held_out = held_out_prompts(prompt_sources, config.prompts_per_evaluation(), messages);
  problem_set += extent_of(held_out);
  const std::vector<Prompt>& prompts = held_out.prompts;
  StageMeter meter;
  const Evaluation result = [&, &loaded = loaded] {
    const LiveLine live(messages, [&] { return meter.text(); });
    const RolloutEngine engine(SamplingModel({loaded.model, masters}), loaded.tokenizer);
    return evaluate(engine, prompts, prompt_sources.reward(), request, stop_requested, &meter);
  }();
  messages.end_progress();
  if (result.count < static_cast<int64_t>(prompts.size()))
    fail(ExitCode::kInterrupted, "stopped after ", result.count, " of ", prompts.size(),
         " prompts; nothing was written");
  ScoreTally tally;
  if (const auto first = tally.add(result.scores, result.rollouts.size())) messages.warning(*first);
  for (const std::string& warning : tally.warnings()) messages.warning(warning);
  require_judged(result);
  if (!arguments.samples.empty()) {
    require_replaceable(arguments.samples, kSamples, holds_samples);  // again, for it may be there by now
    write_atomically(arguments.samples, sample_lines(result, prompts));
    messages.line("every completion is in the file " + arguments.samples);
  }
  if (arguments.json)
    print_json(result, request, model, problem_set, held_out,
               prompt_sources.prompt_limit() > 0 ? Json(prompt_sources.prompt_limit()) : Json());
  else
    print_table(result, request, model, problem_set, console);
  return ExitCode::kDone;
}

}  // namespace

CommandHandler add_eval(CommandLine& line) {
  const auto arguments = std::make_shared<EvalArguments>();
  Command command = line.add("eval", "pass@k, avg@k and maj@k on held-out problems");
  command
      .option("CONFIG", arguments->config,
              "Configuration file, YAML or JSON; the sections data or task, reward and eval")
      .required()
      .files()
      .settings();
  command.option("OVERRIDES", arguments->overrides, "key=value settings that win over the file").settings();
  command
      .option("--model", arguments->model,
              "A Hugging Face model folder, a GGUF file, owner/name in the local cache, or the folder of a run; else "
              "the newest checkpoint in run.dir, else model.path")
      .files();
  command
      .option("--adapter", arguments->adapter,
              "Folder of a PEFT adapter (LoRA) to put on the model, or of a run or checkpoint that has one")
      .folders();
  command.option("--samples", arguments->samples, "Write every completion to this file, one JSON object per line")
      .files();
  command.flag("--json", arguments->json, "The numbers as one JSON object");
  command.flag("-q,--quiet", arguments->quiet, "Print only warnings, errors and the numbers");
  return [arguments] { return evaluate_command(*arguments); };
}

}  // namespace keel::cli
