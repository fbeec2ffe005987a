#include "keel/study/outcome.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/evaluation/intervals.h"
#include "keel/record/run_data.h"
#include "keel/record/tools/exported_run.h"

namespace keel {
namespace {

constexpr size_t kWindow = 5;  // steps of the moving average

double mean_of(const double* first, size_t count) { return moments_of({first, count}).mean; }

/// Returns the moving average over kWindow steps, over fewer at the beginning.
std::vector<double> moving_average(const std::vector<double>& rewards) {
  std::vector<double> averages;
  for (size_t i = 0; i < rewards.size(); ++i) {
    const size_t count = std::min(kWindow, i + 1);
    averages.push_back(mean_of(&rewards[i + 1 - count], count));
  }
  return averages;
}

size_t num_last_steps(size_t steps, int64_t last) {
  return std::clamp<size_t>(steps / 3, 1, static_cast<size_t>(last));
}

std::vector<std::string> split_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line)
    if (c == ',')
      fields.emplace_back();
    else if (c != '\r')
      fields.back() += c;
  return fields;
}

}  // namespace

bool has_collapsed(const std::vector<double>& rewards, int64_t last) {
  if (rewards.size() <= kWindow) return false;
  const std::vector<double> averages = moving_average(rewards);
  const double best = *std::max_element(averages.begin() + kWindow - 1, averages.end());
  const size_t num_last = std::min(num_last_steps(rewards.size(), last), averages.size() - kWindow + 1);
  return best > 0 && std::all_of(averages.end() - static_cast<std::ptrdiff_t>(num_last), averages.end(),
                                 [&](double mean) { return mean < best / 2; });
}

std::vector<std::string> metric_names(const std::filesystem::path& run) {
  std::set<std::string> names;
  for (const MetricRow& row : read_run(run).metrics)
    if (row.phase == "rl")
      for (const auto& [name, value] : row.values) names.insert(name);
  return {names.begin(), names.end()};
}

Outcome measure_run(const std::filesystem::path& run, int64_t last, const std::vector<std::string>& metrics) {
  const RunData data = read_run(run);
  Outcome outcome;
  std::map<std::string, std::vector<double>> curves;
  for (const MetricRow& row : data.metrics) {
    if (row.phase != "rl") continue;
    if (const auto reward = row.values.find("reward/mean"); reward != row.values.end())
      outcome.rewards.push_back(reward->second);
    for (const std::string& metric : metrics)
      if (const auto value = row.values.find(metric); value != row.values.end())
        curves[metric].push_back(value->second);
  }
  if (outcome.rewards.empty())
    fail(ExitCode::kBadInput, run.string(), ": the run has no step with a reward, so the study cannot measure it");
  const std::vector<double>& rewards = outcome.rewards;
  const size_t num_last = num_last_steps(rewards.size(), last);
  const std::vector<double> averages = moving_average(rewards);
  outcome.measures[measure::kFinal] = mean_of(&rewards[rewards.size() - num_last], num_last);
  outcome.measures[measure::kEarly] = mean_of(rewards.data(), num_last);
  outcome.measures[measure::kBest] = *std::max_element(
      averages.begin() + static_cast<std::ptrdiff_t>(std::min(kWindow, averages.size()) - 1), averages.end());
  outcome.measures[measure::kCollapsed] = has_collapsed(rewards, last) ? 1 : 0;
  const RunSummary summary = summarize(data);
  if (summary.before) outcome.measures[measure::kBefore] = summary.before->mean;
  if (summary.after) outcome.measures[measure::kAfter] = summary.after->mean;
  for (const auto& [metric, values] : curves) {
    const size_t count = std::min(num_last, values.size());
    outcome.measures[metric] = mean_of(&values[values.size() - count], count);
  }
  return outcome;
}

Json to_json(const Outcome& outcome) {
  return {{"variant", outcome.variant},
          {"seed", outcome.seed},
          {"measures", outcome.measures},
          {"rewards", outcome.rewards}};
}

Outcome parse_outcome(const Json& json, const std::string& location) {
  try {
    Outcome outcome = {json.at("variant").get<std::string>(), json.at("seed").get<uint64_t>(),
                       json.at("measures").get<std::map<std::string, double>>(),
                       json.at("rewards").get<std::vector<double>>()};
    for (const char* name : {measure::kFinal, measure::kEarly, measure::kCollapsed})
      if (!outcome.variant.empty()) json.at("measures").at(name);
    return outcome;
  } catch (const Json::exception& error) {
    fail(ExitCode::kBadInput, location, ": not the outcome of a run (", error.what(),
         "); remove the file to measure the run again");
  }
}

std::set<std::string> collect_measure_names(const std::vector<Outcome>& outcomes) {
  std::set<std::string> names;
  for (const Outcome& outcome : outcomes)
    for (const auto& [name, value] : outcome.measures) names.insert(name);
  return names;
}

std::string outcomes_csv(const std::vector<Outcome>& outcomes) {
  const std::set<std::string> names = collect_measure_names(outcomes);
  std::string table = "variant,seed";
  for (const std::string& name : names) table += "," + name;
  table += "\n";
  for (const Outcome& outcome : outcomes) {
    table += outcome.variant + "," + std::to_string(outcome.seed);
    for (const std::string& name : names) {
      const auto found = outcome.measures.find(name);
      table += "," + (found == outcome.measures.end() ? "" : shortest_exact(found->second));
    }
    table += "\n";
  }
  return table;
}

std::vector<Outcome> read_outcomes_csv(const std::filesystem::path& file) {
  const std::string text = read_file(file, 64 << 20);
  std::vector<Outcome> outcomes;
  std::vector<std::string> names;
  std::set<std::pair<std::string, uint64_t>> runs;
  size_t line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::vector<std::string> fields = split_fields(text.substr(begin, end - begin));
    begin = end + 1;
    const std::string location = file.string() + ":" + std::to_string(++line_number);
    if (line_number == 1) {
      names = fields;
      if (names.size() < 3 || names[0] != "variant" || names[1] != "seed")
        fail(ExitCode::kBadInput, location, ": expected a study's runs.csv, whose first line begins with variant,seed");
      for (auto name = names.begin(); name != names.end(); ++name)
        if (std::find(names.begin(), name, *name) != name)
          fail(ExitCode::kBadInput, location, ": has the column ", *name, " twice; remove one");
      continue;
    }
    if (fields.size() != names.size())
      fail(ExitCode::kBadInput, location, ": has ", fields.size(), " fields, expected ", names.size());
    Outcome outcome;
    outcome.variant = fields[0];
    for (size_t i = 1; i < fields.size(); ++i) {
      if (i > 1 && fields[i].empty()) continue;
      double value = 0;
      const char *const first = fields[i].data(), *const last = first + fields[i].size();
      const auto [parsed_end, error] =
          i == 1 ? std::from_chars(first, last, outcome.seed) : std::from_chars(first, last, value);
      if (error != std::errc() || parsed_end != last || !std::isfinite(value))
        fail(ExitCode::kBadInput, location, ": ", names[i], ": got \"", fields[i], "\", expected a number");
      if (names[i] == measure::kCollapsed && value != 0 && value != 1)
        fail(ExitCode::kBadInput, location, ": ", names[i], ": got \"", fields[i], "\", expected 0 or 1");
      if (i > 1) outcome.measures[names[i]] = value;
    }
    if (!runs.emplace(outcome.variant, outcome.seed).second)
      fail(ExitCode::kBadInput, location, ": has the run ", outcome.variant, "-", outcome.seed,
           " twice; remove one of the rows");
    outcomes.push_back(std::move(outcome));
  }
  if (outcomes.empty()) fail(ExitCode::kBadInput, file.string(), ": has no runs; expected a study's runs.csv");
  return outcomes;
}

}  // namespace keel
