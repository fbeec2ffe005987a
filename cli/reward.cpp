#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/json_lines.h"
#include "keel/core/config_tree.h"
#include "keel/core/options.h"
#include "keel/reward/reward_options.h"

namespace keel::cli {
namespace {

struct Arguments {
  std::string rows;
  std::vector<std::string> settings;
};

RewardOptions read_settings(const std::vector<std::string>& settings) {
  ConfigTree tree;
  for (const std::string& assignment : settings) apply_override(tree, assignment);
  RewardOptions options;
  OptionTable table;
  table.section("reward", "What completions are worth.", options);
  table.load(tree);
  return options;
}

/// {"prompt": text or messages, "completion": text, "answer": any, "source": text}; other keys are extra columns.
Prompt prompt_of(const Json& row, uint64_t id, const std::string& place) {
  Prompt prompt{.id = id, .tokens = {}, .text = "", .source = row.value("source", ""), .answer = Json()};
  if (!row.contains("completion") || !row["completion"].is_string())
    fail(ExitCode::kBadInput, place, ": the row has no \"completion\"; add it, as a string");
  const Json& text = row.value("prompt", Json(""));
  if (text.is_string())
    prompt.text = text;
  else
    prompt.messages = text;
  prompt.answer = row.value("answer", Json());
  prompt.extra = Json::object();
  for (const auto& [key, value] : row.items())
    if (key != "prompt" && key != "completion" && key != "answer" && key != "source") prompt.extra[key] = value;
  return prompt;
}

ExitCode reward_rows(const std::string& path, const RewardOptions& options) {
  const RewardSum reward = make_reward(options);
  for_each_line(path, options.worker_count(), [&](JsonLine& line) {
    Json& row = line.value;
    const Prompt prompt = prompt_of(row, line.number, line.place);
    const std::string objection = reward.objection(prompt.answer, prompt.source);
    if (!objection.empty() && options.on_error == "stop") fail(ExitCode::kBadInput, line.place, ": ", objection);
    const RewardSample sample{.prompt = prompt,
                              .completion = row["completion"],
                              .spelled = row["completion"],
                              .tokens = {},
                              .id = line.number};
    const Judgement judgement = reward.judge({&sample, 1});
    const auto json = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
    row["reward"] = json(judgement.totals[0]);
    for (size_t t = 0; t < judgement.terms.size(); ++t)
      row["rewards"][reward.terms()[t].name] = json(judgement.terms[t][0]);
    if (!judgement.failures.empty()) row["failures"] = judgement.failures;
  });
  return ExitCode::kDone;
}

}  // namespace

Action add_reward(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("reward", "Try reward functions on completions, before a run does");
  command
      ->add_option("ROWS", arguments->rows,
                   "JSONL rows {prompt, completion, answer, source, ...}; printed with \"reward\"; - is standard input")
      ->required();
  command->add_option(
      "SETTINGS", arguments->settings,
      "As in a configuration: reward.functions='[\"math\", \"tags:think,answer\"]' reward.weights='[1, 0.1]'");
  return [arguments] { return reward_rows(arguments->rows, read_settings(arguments->settings)); };
}

}  // namespace keel::cli
