#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/json_lines.h"
#include "keel/core/config_tree.h"
#include "keel/core/error.h"
#include "keel/core/foreign_text.h"
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

[[noreturn]] void refuse(const std::string& place, const char* key, const Json& value, const char* wanted) {
  fail(ExitCode::kBadInput, place, ": \"", key, "\" is ", printable(value.dump()), "; wanted ", wanted);
}

/// {"prompt": text or messages, "completion": text, "answer": any, "source": text, "completion_ids": numbers}; other
/// keys are extra columns.
Prompt prompt_of(const Json& row, uint64_t id, const std::string& place) {
  if (!row.contains("completion") || !row["completion"].is_string())
    fail(ExitCode::kBadInput, place, ": the row has no \"completion\"; add it, as a string");
  const Json text = row.value("prompt", Json("")), source = row.value("source", Json(""));
  if (!text.is_string() && !text.is_array()) refuse(place, "prompt", text, "a text or a list of messages");
  if (!source.is_string()) refuse(place, "source", source, "a text");
  Prompt prompt{.id = id, .tokens = {}, .text = "", .source = source, .answer = row.value("answer", Json())};
  if (text.is_string())
    prompt.text = text;
  else
    prompt.messages = text;
  prompt.extra = Json::object();
  for (const auto& [key, value] : row.items())
    if (key != "prompt" && key != "completion" && key != "answer" && key != "source" && key != "completion_ids")
      prompt.extra[key] = value;
  return prompt;
}

std::optional<std::vector<int32_t>> tokens_of(const Json& row, const std::string& place) {
  if (!row.contains("completion_ids") || row["completion_ids"].is_null()) return std::nullopt;
  const Json& ids = row["completion_ids"];
  const auto is_token = [](const Json& id) { return id.is_number_unsigned() && id <= INT32_MAX; };
  if (!ids.is_array() || !std::all_of(ids.begin(), ids.end(), is_token))
    refuse(place, "completion_ids", ids, "a list of token numbers");
  return ids.get<std::vector<int32_t>>();
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
                              .tokens = tokens_of(row, line.place),
                              .id = line.number};
    const Judgement judgement = reward.judge({&sample, 1});
    const auto json = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
    row["reward"] = json(judgement.totals[0]);
    row["rewards"] = Json::object();
    for (size_t t = 0; t < judgement.terms.size(); ++t)
      row["rewards"][reward.terms()[t].name] = json(judgement.terms[t][0]);
    row.erase("failures");
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
                   "JSONL rows {prompt, completion, answer, source, completion_ids, ...}; printed with \"reward\"; - "
                   "is standard input")
      ->required();
  command->add_option(
      "SETTINGS", arguments->settings,
      "As in a configuration: reward.functions='[\"math\", \"tags:think,answer\"]' reward.weights='[1, 0.1]'");
  return [arguments] { return reward_rows(arguments->rows, read_settings(arguments->settings)); };
}

}  // namespace keel::cli
