#include "cli/run_training.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "cli/description_parts.h"
#include "cli/run_description.h"
#include "keel/core/files/failed_call.h"
#include "keel/core/files/file.h"
#include "keel/core/files/link.h"
#include "keel/core/interrupt.h"
#include "keel/core/options/read_config.h"
#include "keel/core/shell_words.h"
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
    std::snprintf(interval, sizeof(interval), "no interval: there is one prompt");
  else if (eval.low < eval.high)
    std::snprintf(interval, sizeof(interval), "95 %% interval [%.3f, %.3f]", eval.low, eval.high);
  std::snprintf(text, sizeof(text), "  %-7s %.3f   %s   %ld held-out prompt%s", label, eval.mean, interval,
                static_cast<long>(eval.count), eval.count == 1 ? "" : "s");
  return text;
}

/// The reward of a built-in task is a share of right answers; functions of the user's may give any number.
void print_curve(const RunData& run, const Config& config, Console& console) {
  std::vector<double> rewards;
  for (const ChartPoint& point : metric_curve(run, "rl", "reward/mean")) rewards.push_back(point.y);
  if (rewards.size() < 2) return;
  console.line();
  const bool is_share = config.data.files.empty() && config.reward.functions.empty();
  const auto [least, most] = std::minmax_element(rewards.begin(), rewards.end());
  console.line(terminal_chart(
      rewards, {.width = std::min(console.width(), 90),
                .title = is_share ? "reward (share of correct completions) over RL steps" : "reward over RL steps",
                .y_min = is_share ? 0 : std::min(*least, 0.0),
                .y_max = is_share ? 1 : std::max(*most, 1.0),
                .ascii = !terminal_has_utf8()}));
}

void print_samples(const RunData& run, bool is_binary, Console& console) {
  console.heading("Completions of held-out prompts, after training");
  int shown = 0;
  std::optional<int64_t> last;  // evaluation
  for (auto sample = run.samples.rbegin(); sample != run.samples.rend() && shown < 3; ++sample) {
    if (sample->phase != "eval") continue;
    if (sample->step != last.value_or(sample->step)) break;
    last = sample->step;
    console.line("  " + console.paint(Paint::kDim, escape_controls(sample->prompt)));
    const std::string verdict = std::isnan(sample->reward) ? console.paint(Paint::kDim, "not judged")
                                : !is_binary               ? "reward " + short_number(sample->reward)
                                : sample->reward > 0       ? console.paint(Paint::kGreen, "correct")
                                                           : console.paint(Paint::kRed, "wrong");
    console.line("  " + escape_controls(sample->completion) + "   " + verdict);
    ++shown;
  }
}

/// Rows that somebody spoiled while the run went on, or a folder that nothing may be written to any more, take its
/// report away, and not its end. A disk that is full or cannot be read is an error all the same.
std::optional<RunData> reported_run(const std::filesystem::path& folder, const std::filesystem::path& checkpoint,
                                    Console& console) {
  try {
    for (const std::string& change : find_changed_rows(folder, checkpoint))
      console.warning(change + "; somebody has changed the file while the run went on, and --resume will say so");
    RunData run = write_report(folder);
    for (const std::string& damage : run.recorded.damage) console.warning(damage + "; the report goes without it");
    return run;
  } catch (const Error& error) {
    const std::string told = std::string(error.what()) + "; there is no report until this is mended (keel report " +
                             shell_word(folder.string()) + "), but the run is whole and its checkpoints are sound";
    const bool machine_failed =
        error.code() == ExitCode::kHealthGuard || dynamic_cast<const ReadFailure*>(&error) != nullptr;
    if (machine_failed) fail(error.code(), told);
    console.warning(told);
    return std::nullopt;
  }
}

/// The loss on rows that are kept for it, before the first update and after the last.
void print_supervised(const RunSummary& summary, Console& console) {
  if (!summary.sft_loss_before || !summary.sft_loss_after) return;
  console.heading("Loss on held-out rows");
  for (const auto& [label, loss] :
       {std::pair{"before", *summary.sft_loss_before}, {"after", *summary.sft_loss_after}}) {
    char text[80];
    std::snprintf(text, sizeof(text), "  %-7s %.4f   loss on held-out rows", label, loss);
    console.result(text);
  }
}

void print_summary(const RunData& run, const Config& config, Console& console) {
  const RunSummary summary = summarize(run);
  print_supervised(summary, console);
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
  if (config.lora.used())
    console.line("  " + (checkpoint / "adapter").string() + "   the adapter by itself, as PEFT has it");
  if (config.record.tensorboard) console.line("  " + dir + "/tensorboard   tensorboard --logdir " + shell_word(dir));
  const std::filesystem::path best = std::filesystem::path(dir) / "checkpoints" / "best";
  if (const std::optional<std::string> kept = link_target(best); config.checkpoint.keeps_best() && kept)
    console.line("  " + best.string() + "   the best evaluation's, " + *kept +
                 (checkpoint.filename() == *kept ? "" : "; the run itself stands for its newest checkpoint"));
}

}  // namespace

ConfigTree read_settings(const std::string& file, const std::vector<std::string>& settings) {
  const bool is_setting = file.find('=') != std::string::npos && !path_exists(file);
  std::vector<std::string> all;
  if (is_setting) all.push_back(file);
  all.insert(all.end(), settings.begin(), settings.end());
  for (const char* ending : {".sh", ".bash", ".py"})
    if (file.ends_with(ending) && path_exists(file))
      fail(ExitCode::kBadConfiguration, file, ": is a script, and a configuration is YAML or JSON; `keel import` ",
           "makes one of the settings of TRL or verl");
  ConfigTree tree = is_setting ? ConfigTree{} : read_config(file);
  apply_overrides(tree, all);
  return tree;
}

std::optional<std::filesystem::path> run_around(const std::string& file, const ConfigTree& tree, const Config& config) {
  const std::filesystem::path path = full_path(file), folder = path.parent_path();
  std::error_code unseen;
  if (path.filename() != "config.yaml" || !is_folder(folder / "checkpoints") ||
      !command_line_name(tree, "run.dir").empty() || std::filesystem::equivalent(folder, config.run.dir, unseen))
    return std::nullopt;
  return folder;
}

void apply_overrides(ConfigTree& tree, const std::vector<std::string>& assignments) {
  // `model: PATH` says model.path, and must leave room for the section's other keys.
  if (tree.value.contains("model") && tree.value["model"].is_string()) {
    tree.value["model"] = {{"path", tree.value["model"]}};
    tree.lines["model.path"] = tree.lines["model"];
  }
  std::map<std::string, std::string> given;
  for (std::string assignment : assignments) {
    if (assignment.starts_with("model=") && !assignment.starts_with("model={")) assignment.insert(5, ".path");
    apply_override(tree, assignment);
    const size_t begin = assignment.find_first_not_of(' ');
    const std::string key = assignment.substr(begin, assignment.find_first_of(" =", begin) - begin);
    const auto [earlier, fresh] = given.emplace(key, assignment);
    if (!fresh)
      fail(ExitCode::kBadConfiguration, "command line: ", key, " is set twice, by ", earlier->second, " and by ",
           assignment, "; keep one of them");
  }
}

ExitCode run_training(const Config& config, StartMode mode, Console& console, bool watched,
                      const AcceptedChanges& accepted) {
  std::optional<WatchBeside> page;  // first, while there are no other threads; it sees the run end
  if (watched) page.emplace(config.run.dir);
  const std::unique_ptr<Run> run = mode == StartMode::kResume
                                       ? Run::resume(config, console, accepted)
                                       : Run::start(config, mode == StartMode::kReplace, console);
  if (page) console.result("live report: " + page->address());
  console.line(fitted(describe_run(config, *run), console));
  const ExitCode code = run->run();
  const std::optional<RunData> data = reported_run(config.run.dir, run->last_checkpoint(), console);
  if (code == ExitCode::kDone) print_result(data, config, *run, console);
  return code;
}

}  // namespace keel::cli
