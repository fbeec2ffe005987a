#include "cli/run_training.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "cli/description_parts.h"
#include "cli/failure.h"
#include "cli/run_description.h"
#include "keel/core/files/failed_call.h"
#include "keel/core/files/file.h"
#include "keel/core/files/link.h"
#include "keel/core/interrupt.h"
#include "keel/core/options/read_config.h"
#include "keel/core/shell_words.h"
#include "keel/core/steady_clock.h"
#include "keel/core/strings.h"
#include "keel/record/charts/terminal_chart.h"
#include "keel/record/report/report.h"
#include "keel/record/run_data.h"
#include "keel/train/checkpoint/checkpoint.h"
#include "keel/watch/watch.h"

namespace keel::cli {
namespace {

std::string evaluation_line(const char* label, const EvalPoint& eval) {
  char interval[60] = "no interval: all rewards are equal", text[160];
  if (eval.count == 1)
    std::snprintf(interval, sizeof(interval), "no interval: only one prompt");
  else if (eval.low < eval.high)
    std::snprintf(interval, sizeof(interval), "95 %% interval [%.3f, %.3f]", eval.low, eval.high);
  std::snprintf(text, sizeof(text), "  %-7s %.3f   %s   %ld held-out prompt%s", label, eval.mean, interval,
                static_cast<long>(eval.count), eval.count == 1 ? "" : "s");
  return text;
}

/// Draws the reward curve, from 0 to 1 for built-in tasks, whose reward is a fraction of correct answers.
void print_curve(const RunData& run, const Config& config, Console& console) {
  std::vector<double> rewards;
  for (const ChartPoint& point : metric_curve(run, "rl", "reward/mean")) rewards.push_back(point.y);
  if (rewards.size() < 2) return;
  console.line();
  const bool is_fraction = config.data.files.empty() && config.reward.functions.empty();
  const auto [lowest, highest] = std::minmax_element(rewards.begin(), rewards.end());
  console.line(terminal_chart(rewards, {.width = std::min(console.width(), 90),
                                        .title = is_fraction ? "reward (fraction of correct completions) over RL steps"
                                                             : "reward over RL steps",
                                        .y_min = is_fraction ? 0 : std::min(*lowest, 0.0),
                                        .y_max = is_fraction ? 1 : std::max(*highest, 1.0),
                                        .ascii = !terminal_has_utf8()}));
}

void print_samples(const RunData& run, bool is_binary, Console& console) {
  console.heading("Completions of held-out prompts, after training");
  int shown = 0;
  std::optional<int64_t> last_eval_step;
  for (auto sample = run.samples.rbegin(); sample != run.samples.rend() && shown < 3; ++sample) {
    if (sample->phase != "eval") continue;
    if (sample->step != last_eval_step.value_or(sample->step)) break;
    last_eval_step = sample->step;
    console.line("  " + console.paint(Paint::kDim, escape_controls(sample->prompt)));
    const std::string verdict = std::isnan(sample->reward) ? console.paint(Paint::kDim, "no reward")
                                : !is_binary               ? "reward " + short_number(sample->reward)
                                : sample->reward > 0       ? console.paint(Paint::kGreen, "correct")
                                                           : console.paint(Paint::kRed, "wrong");
    console.line("  " + escape_controls(sample->completion) + "   " + verdict);
    ++shown;
  }
}

/// Writes the report. If rows of the run were changed meanwhile, or the folder became read-only, this warns and returns
/// std::nullopt; a full or unreadable disk is an error.
std::optional<RunData> try_write_report(const std::filesystem::path& folder, const std::filesystem::path& checkpoint,
                                        Console& console) {
  try {
    for (const std::string& change : find_changed_rows(folder, checkpoint))
      console.warning(change + "; the file was changed during the run, and --resume will report it");
    RunData run = write_report(folder);
    for (const std::string& damage : run.recorded.damage) console.warning(damage + "; the report leaves it out");
    return run;
  } catch (const Error& error) {
    const std::string message = std::string(error.what()) + "; no report was written. Fix this and run keel report " +
                                shell_word(folder.string()) + "; the run is complete and its checkpoints are valid";
    const bool is_machine_failure =
        error.code() == ExitCode::kHealthGuard || dynamic_cast<const ReadFailure*>(&error) != nullptr;
    if (is_machine_failure) fail(error.code(), message);
    console.warning(message);
    return std::nullopt;
  }
}

/// Prints the loss on held-out rows before the first update and after the last.
void print_supervised_losses(const RunSummary& summary, Console& console) {
  if (!summary.sft_loss_before || !summary.sft_loss_after) return;
  console.heading("Loss on held-out rows");
  for (const auto& [label, loss] :
       {std::pair{"before", *summary.sft_loss_before}, {"after", *summary.sft_loss_after}}) {
    char text[80];
    std::snprintf(text, sizeof(text), "  %-7s %.4f   loss on held-out rows", label, loss);
    console.result(text);
  }
}

/// The steps of a phase that this process trained.
struct PhaseTotals {
  int64_t steps = 0;
  double seconds = 0, tokens = 0;  // tokens: sampled in RL, trained in SFT
};

/// Adds up the rows of a phase after a step.
PhaseTotals add_up_phase(const RunData& run, std::string_view phase, int64_t after_step) {
  PhaseTotals totals;
  for (const MetricRow& row : run.metrics) {
    if (row.phase != phase || row.step <= after_step) continue;
    const auto value = [&](const char* key) {
      const auto found = row.values.find(key);
      return found == row.values.end() ? 0 : found->second;
    };
    ++totals.steps;
    totals.seconds += value("time/step");
    totals.tokens += value("sft/tokens") + value("throughput/rollout_tokens_per_s") * value("time/rollout");
  }
  return totals;
}

/// "reward 0.250 at step 1, 0.875 at step 40": the first and last value of a metric, by the phase's own steps; empty if
/// no row has it.
std::string first_and_last(const RunData& run, std::string_view phase, const char* key, const char* name) {
  const std::vector<ChartPoint> curve = metric_curve(run, phase, key);
  const auto has_value = [](const ChartPoint& point) { return is_plottable(point.y); };
  const auto first = std::ranges::find_if(curve, has_value);
  if (first == curve.end()) return "";
  const auto last = std::find_if(curve.rbegin(), curve.rend(), has_value).base() - 1;
  const auto text = [&](auto point) {
    return fixed(point->y, 3) + " at step " + std::to_string(point - curve.begin() + 1);
  };
  return std::string("   ") + name + " " + text(first) + (first == last ? "" : ", " + text(last));
}

/// Prints how long the process took and how fast it trained, and the first and last reward or loss of the run.
void print_totals(const RunData& run, int64_t first_step, double seconds, Console& console) {
  console.heading("Training");
  console.line("  time    " + format_duration(seconds) +
               (first_step > 0 ? " since the run was resumed at step " + std::to_string(first_step) : "") +
               ", including loading and saving");
  const auto print_phase = [&](const char* label, const char* phase, int64_t after, const char* key, const char* name) {
    const PhaseTotals totals = add_up_phase(run, phase, after);
    if (totals.steps == 0) return;
    const double step_seconds = totals.seconds / static_cast<double>(totals.steps);
    std::string text =
        std::string("  ") + label + counted(totals.steps, "step") + ", " + format_duration(step_seconds) + " per step";
    if (totals.tokens > 0 && totals.seconds > 0)
      text += ", " + format_count(std::llround(totals.tokens / totals.seconds)) + " tokens/s";
    console.line(text + first_and_last(run, phase, key, name));
  };
  // `run` counts RL steps from 1, and `first_step` counts the steps of both phases.
  const int64_t sft_steps = summarize(run).sft_steps;
  print_phase("SFT     ", "sft", first_step, "sft/loss", "loss");
  print_phase("RL      ", "rl", first_step - sft_steps, "reward/mean", "reward");
}

void print_summary(const RunData& run, const Config& config, Console& console) {
  const RunSummary summary = summarize(run);
  print_supervised_losses(summary, console);
  print_curve(run, config, console);
  if (summary.before && summary.after) {
    console.heading(summary.after->is_accuracy ? "Accuracy" : "Held-out reward");
    console.result(evaluation_line("before", *summary.before));
    console.result(evaluation_line("after", *summary.after));
    print_samples(run, summary.after->is_accuracy, console);
  }
}

void print_result(const std::optional<RunData>& data, const Config& config, const Run& run, Console& console) {
  if (data) print_summary(*data, config, console);
  const std::string dir = run.folder().string();
  const std::filesystem::path checkpoint = run.last_checkpoint();
  console.heading("Written");
  if (data)
    console.line("  " + dir + "/report.html     open it in a browser: curves" +
                 (config.has_rl() ? ", and every token shaded by its coefficient" : ""));
  console.line("  " + dir + "/metrics.jsonl   one line per step");
  console.result("  " + checkpoint.string() + "   a Hugging Face model folder");
  if (config.lora.used()) console.line("  " + (checkpoint / "adapter").string() + "   the adapter, in PEFT format");
  if (config.record.tensorboard) console.line("  " + dir + "/tensorboard   tensorboard --logdir " + shell_word(dir));
  const std::filesystem::path best = std::filesystem::path(dir) / "checkpoints" / "best";
  if (const std::optional<std::string> best_name = link_target(best); config.checkpoint.keeps_best() && best_name)
    console.line("  " + best.string() + "   best evaluation: " + *best_name +
                 (checkpoint.filename() == *best_name ? "" : "; the run's folder means its newest checkpoint"));
}

}  // namespace

std::string config_file(const std::string& name) {
  const std::filesystem::path config = std::filesystem::path(name) / "config.yaml";
  return is_folder(name) && path_exists(config) ? config.string() : name;
}

ConfigTree read_settings(const std::string& file, const std::vector<std::string>& settings) {
  const bool is_setting = file.find('=') != std::string::npos && !path_exists(file);
  std::vector<std::string> assignments;
  if (is_setting) assignments.push_back(file);
  assignments.insert(assignments.end(), settings.begin(), settings.end());
  for (const char* ending : {".sh", ".bash", ".py"})
    if (file.ends_with(ending) && path_exists(file))
      fail(ExitCode::kBadConfiguration, file,
           ": is a script; expected a YAML or JSON configuration. Fix: `keel import` ",
           "converts TRL or verl settings");
  ConfigTree tree = is_setting ? ConfigTree{} : read_config(file);
  apply_overrides(tree, assignments);
  return tree;
}

std::optional<std::filesystem::path> find_moved_run(const std::string& file, const ConfigTree& tree,
                                                    const Config& config) {
  const std::filesystem::path path = full_path(file), folder = path.parent_path();
  std::error_code ignored;
  if (path.filename() != "config.yaml" || !is_folder(folder / "checkpoints") ||
      !command_line_name(tree, "run.dir").empty() || std::filesystem::equivalent(folder, config.run.dir, ignored))
    return std::nullopt;
  return folder;
}

void apply_overrides(ConfigTree& tree, const std::vector<std::string>& assignments) {
  // `model: PATH` is short for model.path. Expand it, so that other keys of the section can be set.
  if (tree.value.contains("model") && tree.value["model"].is_string()) {
    tree.value["model"] = {{"path", tree.value["model"]}};
    tree.lines["model.path"] = tree.lines["model"];
  }
  std::map<std::string, std::string> assignment_by_key;
  for (std::string assignment : assignments) {
    if (assignment.starts_with("model=") && !assignment.starts_with("model={"))
      assignment.insert(std::string_view("model").size(), ".path");
    apply_override(tree, assignment);
    const size_t begin = assignment.find_first_not_of(' ');
    const std::string key = assignment.substr(begin, assignment.find_first_of(" =", begin) - begin);
    const auto [earlier, is_new] = assignment_by_key.emplace(key, assignment);
    if (!is_new)
      fail(ExitCode::kBadConfiguration, "command line: ", key, " is set twice, by ", earlier->second, " and by ",
           assignment, "; keep one of them");
  }
}

namespace {

/// Resumes or starts the run, and prints its settings, or that it was finished before.
std::unique_ptr<Run> open_run(const Config& config, const std::vector<std::string>& notes, StartMode mode,
                              const AcceptedChanges& accepted, Console& console) {
  const bool resumes = mode == StartMode::kResume;
  std::unique_ptr<Run> run;
  const auto print_notes = [&] {
    for (const std::string& note : notes) console.line(note);
  };
  try {
    run = resumes ? Run::resume(config, console, accepted) : Run::start(config, mode == StartMode::kReplace, console);
  } catch (const std::exception&) {
    print_notes();
    throw;
  }
  print_notes();
  if (resumes && run->is_done())
    console.result("The run in " + config.run.dir + " was already finished at step " + std::to_string(run->step()) +
                   ", so nothing is trained. To train more steps, raise " +
                   (config.has_rl() ? "train.steps or train.data_epochs" : "sft.steps or sft.data_epochs"));
  else
    console.line(wrap_entries(describe_run(config, *run), console));
  return run;
}

ExitCode open_and_train(const Config& config, const std::vector<std::string>& notes, StartMode mode, Console& console,
                        bool serve_report, const AcceptedChanges& accepted) {
  const double begin = steady_seconds();
  std::optional<BackgroundWatch> live_report;  // before other threads start; destroyed after the run
  if (serve_report) live_report.emplace(config.run.dir);
  const std::unique_ptr<Run> run = open_run(config, notes, mode, accepted, console);
  if (live_report) console.result("live report: " + live_report->address());
  const int64_t first_step = run->step();
  const bool was_done = run->is_done();
  const ExitCode code = run->run();
  const std::optional<RunData> data = try_write_report(config.run.dir, run->last_checkpoint(), console);
  if (code != ExitCode::kDone) return code;
  if (data && !was_done) print_totals(*data, first_step, steady_seconds() - begin, console);
  print_result(data, config, *run, console);
  return code;
}

}  // namespace

ExitCode run_training(const Config& config, const std::vector<std::string>& notes, StartMode mode, Console& console,
                      bool serve_report, const AcceptedChanges& accepted) {
  try {
    return open_and_train(config, notes, mode, console, serve_report, accepted);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    try {
      console.log("keel: " + describe_failure(error).message);
    } catch (const Error&) {  // the log cannot be written either
    }
    throw;
  }
}

}  // namespace keel::cli
