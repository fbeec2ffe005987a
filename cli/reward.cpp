#include <memory>

#include "cli/commands.h"
#include "cli/json_lines.h"
#include "cli/reward_rows.h"
#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/options/options.h"
#include "keel/core/options/read_config.h"
#include "keel/reward/reward_options.h"

namespace keel::cli {
namespace {

struct RewardArguments {
  std::string rows;
  std::vector<std::string> settings;
};

/// The settings of section `data` that name the columns.
struct ColumnOptions {
  DataOptions& data;
  void describe(OptionTable& table) {
    table.add("prompt_key", data.prompt_key, "Column of the prompt; empty: detected.");
    table.add("answer_key", data.answer_key, "Column of the answer; empty: detected.");
    table.add("source_key", data.source_key, "Column of the source; empty: detected.");
  }
};

struct Settings {
  RewardOptions reward;
  DataOptions data;
};

Settings read_reward_settings(const std::vector<std::string>& assignments) {
  ConfigTree tree;
  for (const std::string& assignment : assignments) apply_override(tree, assignment);
  Settings settings;
  ColumnOptions columns{settings.data};
  OptionTable table;
  table.section("reward", "Reward functions and penalties.", settings.reward);
  table.section("data", "How rows are read.", columns);
  table.load(tree);
  return settings;
}

ExitCode reward_rows(const std::string& path, const Settings& settings) {
  const RewardOptions& options = settings.reward;
  const RewardSum reward = make_reward(options);
  const RewardRows rows(path, settings.data);
  if (!rows.note().empty()) Console(stderr).line(rows.note());
  for_each_line(path, options.worker_count(), [&](JsonLine& line) {
    Json& row = line.value;
    RewardRow parsed = rows.read(row, line.number, line.location);
    const Prompt& prompt = parsed.prompt;
    const std::string answer_error = reward.answer_error(prompt.answer, prompt.source);
    if (!answer_error.empty() && options.on_error == "stop")  // else it is among the failures below
      fail(ExitCode::kBadInput, line.location, ": ", answer_error);
    const RewardSample sample{.prompt = prompt,
                              .completion = parsed.completion,
                              .with_special_tokens = parsed.completion,
                              .tokens = std::move(parsed.tokens),
                              .stopped = parsed.stopped,
                              .id = line.number};
    const RewardResult result = reward.score({&sample, 1});
    const auto number_or_null = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
    row["reward"] = number_or_null(result.totals[0]);
    row["rewards"] = Json::object();
    for (size_t i = 0; i < result.terms.size(); ++i)
      row["rewards"][reward.terms()[i].name] = number_or_null(result.terms[i][0]);
    row.erase("failures");
    if (!result.failures.empty()) row["failures"] = result.failures;
    row.erase("reward_notes");
    if (!result.notes.empty()) row["reward_notes"] = result.notes;
  });
  return ExitCode::kDone;
}

}  // namespace

CommandHandler add_reward(CommandLine& line) {
  const auto arguments = std::make_shared<RewardArguments>();
  Command command = line.add("reward", "Score completions with reward functions, without a run");
  command
      .option("ROWS", arguments->rows,
              "JSONL rows {prompt, completion, answer, source, completion_ids, ...}, or in the format of verl, TRL and "
              "others; each is printed with \"reward\" added; - is standard input")
      .required()
      .files();
  command
      .option("SETTINGS", arguments->settings,
              "Settings as in a configuration: reward.functions='[\"math\", \"tags:think,answer\"]' "
              "reward.weights='[1, 0.1]'")
      .settings("reward.");
  return [arguments] { return reward_rows(arguments->rows, read_reward_settings(arguments->settings)); };
}

}  // namespace keel::cli
