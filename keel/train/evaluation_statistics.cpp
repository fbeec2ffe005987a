#include "keel/train/evaluation_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/random.h"
#include "keel/reward/math_verifier.h"

namespace keel {
namespace {

constexpr uint64_t kResamples = 2000;
constexpr uint64_t kMathSteps = 1'000'000;  // per pair of answers, of which there may be many

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Between the two values nearest to the share, in proportion.
double percentile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

/// The reward of the sample that first gave the answer with the most votes; nothing when nobody voted.
std::optional<double> elected(std::span<const int64_t> classes, std::span<const double> rewards) {
  std::map<int64_t, int64_t> votes;
  for (const int64_t answer : classes)
    if (answer >= 0) ++votes[answer];
  int64_t most = 0;
  std::optional<double> reward;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] < 0 || votes[classes[i]] <= most) continue;
    most = votes[classes[i]];
    reward = rewards[i];
  }
  return reward;
}

int64_t samples_of(std::span<const JudgedPrompt> prompts, std::span<const int64_t> ks) {
  const size_t samples = prompts.empty() ? 0 : prompts[0].rewards.size();
  for (const JudgedPrompt& prompt : prompts)
    if (prompt.rewards.size() != samples || prompt.answers.size() != samples)
      fail(ExitCode::kInternal, "evaluation: ", prompt.rewards.size(), " rewards and ", prompt.answers.size(),
           " answers of a prompt; wanted ", samples, " of each");
  for (const int64_t k : ks)
    if (k < 1 || (!prompts.empty() && k > static_cast<int64_t>(samples)))
      fail(ExitCode::kInternal, "evaluation: k is ", k, "; wanted 1 to the ", samples, " samples of a prompt");
  return static_cast<int64_t>(samples);
}

/// All measures of one prompt, in the order of `measure_names`.
std::vector<double> measure(const JudgedPrompt& prompt, std::span<const int64_t> ks) {
  const auto samples = static_cast<int64_t>(prompt.rewards.size());
  const int64_t solved =
      std::count_if(prompt.rewards.begin(), prompt.rewards.end(), [](double r) { return r >= kSolved; });
  const std::vector<int64_t> classes = answer_classes(prompt.answers);
  std::vector<double> values = {mean_of(prompt.rewards)};
  for (const int64_t k : ks) values.push_back(pass_at_k(samples, solved, k));
  for (const int64_t k : ks)
    if (k > 1) values.push_back(majority_at_k(classes, prompt.rewards, k));
  return values;
}

std::vector<std::string> measure_names(int64_t samples, std::span<const int64_t> ks) {
  std::vector<std::string> names = {"avg@" + std::to_string(samples)};
  for (const int64_t k : ks) names.push_back("pass@" + std::to_string(k));
  for (const int64_t k : ks)
    if (k > 1) names.push_back("maj@" + std::to_string(k));  // of one sample, maj is pass
  return names;
}

SourceStatistics summarize(const std::string& source, const std::vector<std::vector<double>>& rows, int64_t samples,
                           std::span<const int64_t> ks, uint64_t seed) {
  SourceStatistics result{
      .source = source, .prompts = static_cast<int64_t>(rows.size()), .samples = samples, .measures = {}};
  const std::vector<std::string> names = measure_names(samples, ks);
  for (size_t i = 0; i < names.size(); ++i) {
    std::vector<double> column;
    for (const std::vector<double>& row : rows) column.push_back(row[i]);
    result.measures.push_back({names[i], bootstrap_mean(column, seed)});
  }
  return result;
}

}  // namespace

double pass_at_k(int64_t samples, int64_t solved, int64_t k) {
  if (samples - solved < k) return 1;
  double none = 1;  // C(n-c, k) / C(n, k), factor by factor: nothing overflows
  for (int64_t i = samples - solved + 1; i <= samples; ++i) none *= 1 - static_cast<double>(k) / static_cast<double>(i);
  return 1 - none;
}

std::vector<int64_t> answer_classes(std::span<const std::string> answers) {
  std::vector<size_t> first;  // the sample that gave each class's answer first
  std::vector<int64_t> classes;
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto found = [&](auto&& same) {
      return static_cast<size_t>(std::find_if(first.begin(), first.end(), same) - first.begin());
    };
    size_t index = found([&](size_t other) { return answers[other] == answers[i]; });
    if (index == first.size())
      index = found([&](size_t other) { return verify_math(answers[other], answers[i], kMathSteps).correct; });
    if (index == first.size() && !answers[i].empty()) first.push_back(i);
    classes.push_back(answers[i].empty() ? -1 : static_cast<int64_t>(index));
  }
  return classes;
}

double majority_at_k(std::span<const int64_t> classes, std::span<const double> rewards, int64_t k) {
  const size_t size = static_cast<size_t>(k), blocks = classes.size() / size;
  double solved = 0;
  for (size_t block = 0; block < blocks; ++block) {
    const std::optional<double> reward =
        elected(classes.subspan(block * size, size), rewards.subspan(block * size, size));
    solved += reward && *reward >= kSolved ? 1 : 0;
  }
  return solved / static_cast<double>(blocks);
}

Estimate bootstrap_mean(std::span<const double> values, uint64_t seed) {
  if (values.empty()) return {};
  std::vector<double> means;
  for (uint64_t resample = 0; resample < kResamples; ++resample) {
    Draws draws(seed, Stream::kBootstrap, resample);
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += values[draws.below(static_cast<uint32_t>(values.size()))];
    means.push_back(sum / static_cast<double>(values.size()));
  }
  std::sort(means.begin(), means.end());
  return {mean_of(values), percentile(means, 0.025), percentile(means, 0.975)};
}

std::vector<SourceStatistics> evaluation_statistics(std::span<const JudgedPrompt> prompts, std::span<const int64_t> ks,
                                                    uint64_t seed) {
  const int64_t samples = samples_of(prompts, ks);
  std::vector<std::string> sources;
  std::map<std::string, std::vector<std::vector<double>>> by_source;
  std::vector<std::vector<double>> all;
  for (const JudgedPrompt& prompt : prompts) {
    all.push_back(measure(prompt, ks));
    std::vector<std::vector<double>>& rows = by_source[prompt.source];
    if (rows.empty()) sources.push_back(prompt.source);
    rows.push_back(all.back());
  }
  std::vector<SourceStatistics> result;
  for (const std::string& source : sources) result.push_back(summarize(source, by_source[source], samples, ks, seed));
  if (sources.size() > 1) result.push_back(summarize("all", all, samples, ks, seed));
  return result;
}

Json to_json(std::span<const SourceStatistics> statistics) {
  Json tree = Json::object();
  for (const SourceStatistics& source : statistics) {
    Json& row = tree[source.source];
    row = {{"prompts", source.prompts}, {"samples", source.samples}};
    for (const auto& [name, estimate] : source.measures)
      row[name] = {{"mean", estimate.mean}, {"low", estimate.low}, {"high", estimate.high}};
  }
  return tree;
}

std::string to_table(std::span<const SourceStatistics> statistics) {
  int width = 6;
  for (const SourceStatistics& source : statistics)
    width = std::max(width, display_width(escape_controls(source.source)));
  const auto padded = [&](const std::string& text) {
    return text + std::string(static_cast<size_t>(width - display_width(text)), ' ');
  };
  std::string table = padded("source") + "  prompts  measure     mean   95 % interval\n";
  for (const SourceStatistics& source : statistics) {
    for (const auto& [name, estimate] : source.measures) {
      char text[120];
      std::snprintf(text, sizeof(text), "  %7lld  %-8s  %6.4f   [%.4f, %.4f]\n", static_cast<long long>(source.prompts),
                    name.c_str(), estimate.mean, estimate.low, estimate.high);
      table += padded(escape_controls(source.source)) + text;
    }
  }
  return table;
}

}  // namespace keel
