#include "keel/evaluation/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "libs/mathverify/verifier.h"

namespace keel {
namespace {

constexpr uint64_t kMathSteps = 1'000'000;  // limit of the verifier per pair of answers

/// 1 if the majority answer is solved, else 0; the first sample with that answer decides.
double majority_solved(std::span<const int64_t> classes, std::span<const double> solved) {
  std::map<int64_t, int64_t> votes;
  for (const int64_t answer : classes)
    if (answer >= 0) ++votes[answer];
  int64_t max_votes = 0;
  double result = 0;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] < 0 || votes[classes[i]] <= max_votes) continue;
    max_votes = votes[classes[i]];
    result = solved[i];
  }
  return result;
}

/// The scored samples of one prompt, from which its measures are computed.
struct PromptSamples {
  std::string source;
  int64_t samples = 0, unscored = 0;
  std::vector<double> rewards = {}, solved = {};
  std::vector<int64_t> classes = {};  // of the answers
};

PromptSamples collect_samples(const ScoredPrompt& prompt) {
  PromptSamples result{.source = prompt.source, .samples = static_cast<int64_t>(prompt.samples.size())};
  std::vector<FinalAnswer> answers;
  for (const Verdict& verdict : prompt.samples) {
    if (!verdict.reward) {
      ++result.unscored;
      continue;
    }
    result.rewards.push_back(*verdict.reward);
    result.solved.push_back(verdict.solved ? 1 : 0);
    answers.push_back(verdict.answer);
  }
  result.classes = answer_classes(answers);
  return result;
}

using MeasureValues = std::vector<std::optional<double>>;

/// All measures of one prompt, in the order of list_measures().
MeasureValues compute_measures(const PromptSamples& prompt, std::span<const int64_t> ks) {
  const auto count = static_cast<int64_t>(prompt.rewards.size());
  const int64_t solved = std::count(prompt.solved.begin(), prompt.solved.end(), 1.0);
  MeasureValues values(1);
  if (count > 0) values[0] = moments_of(prompt.rewards).mean;
  for (const int64_t k : ks) values.push_back(k > count ? std::nullopt : std::optional(pass_at_k(count, solved, k)));
  for (const int64_t k : ks)
    if (k > 1)
      values.push_back(k > count ? std::nullopt : std::optional(majority_at_k(prompt.classes, prompt.solved, k)));
  return values;
}

/// The values of k for pass@k and maj@k.
std::vector<int64_t> powers_of_two(int64_t samples) {
  std::vector<int64_t> ks;
  for (int64_t k = 1; k <= samples; k *= 2) ks.push_back(k);
  return ks;
}

struct NamedMeasure {
  std::string name;
  int64_t k;  // samples per trial
};

std::vector<NamedMeasure> list_measures(int64_t samples, std::span<const int64_t> ks) {
  std::vector<NamedMeasure> measures = {{"avg@" + std::to_string(samples), 1}};
  for (const int64_t k : ks) measures.push_back({"pass@" + std::to_string(k), k});
  for (const int64_t k : ks)
    if (k > 1) measures.push_back({"maj@" + std::to_string(k), k});  // maj@1 equals pass@1
  return measures;
}

/// The two values of a reward, low < high.
struct TwoValues {
  double low, high;
};

/// Returns the only two values that the rewards have. Rewards that are all 0 or all 1 count as rewards of 0 and 1. Two
/// other values need a third prompt, because any two rewards have at most two values.
std::optional<TwoValues> find_two_values(std::span<const PromptSamples* const> prompts) {
  std::set<double> values;
  size_t scored_prompts = 0;
  for (const PromptSamples* prompt : prompts) {
    values.insert(prompt->rewards.begin(), prompt->rewards.end());
    if (values.size() > 2) return std::nullopt;
    scored_prompts += prompt->rewards.empty() ? 0 : 1;
  }
  if (std::ranges::all_of(values, [](double value) { return value == 0 || value == 1; })) return TwoValues{0, 1};
  if (values.size() < 2 || scored_prompts < 3) return std::nullopt;
  return TwoValues{*values.begin(), *values.rbegin()};
}

/// The interval of the mean of a reward with only these two values: that of the fraction of the higher one, scaled.
Interval two_value_interval(std::span<const PromptSamples* const> prompts, const TwoValues& values, int64_t trials) {
  std::vector<double> fractions;
  for (const PromptSamples* prompt : prompts)
    if (!prompt->rewards.empty())
      fractions.push_back(static_cast<double>(std::ranges::count(prompt->rewards, values.high)) /
                          static_cast<double>(prompt->rewards.size()));
  const auto [low, high] = fraction_interval(fractions, trials);
  return {std::lerp(values.low, values.high, low), std::lerp(values.low, values.high, high)};
}

/// `all_values`: of the rewards of all sources, if they have only two.
SourceStatistics summarize(const std::string& source, std::span<const PromptSamples* const> prompts,
                           const std::optional<TwoValues>& all_values) {
  SourceStatistics result{.source = source, .prompts = static_cast<int64_t>(prompts.size()), .measures = {}};
  if (prompts.empty()) return result;
  result.samples = (*std::ranges::min_element(prompts, {}, &PromptSamples::samples))->samples;
  const std::vector<int64_t> ks = powers_of_two(result.samples);
  std::vector<MeasureValues> rows;
  for (const PromptSamples* prompt : prompts) {
    result.unscored += prompt->unscored;
    rows.push_back(compute_measures(*prompt, ks));
  }
  const std::optional<TwoValues> values = all_values ? all_values : find_two_values(prompts);
  const std::vector<NamedMeasure> measures = list_measures(result.samples, ks);
  for (size_t i = 0; i < measures.size(); ++i) {
    std::vector<double> prompt_values;
    for (const MeasureValues& row : rows)
      if (row[i]) prompt_values.push_back(*row[i]);
    const int64_t trials = result.samples / measures[i].k;
    Estimate estimate{.prompts = static_cast<int64_t>(prompt_values.size())};
    if (!prompt_values.empty()) {
      const bool is_average = i == 0;
      estimate.mean = moments_of(prompt_values).mean;
      estimate.interval = !is_average ? fraction_interval(prompt_values, trials)
                          : values    ? two_value_interval(prompts, *values, trials)
                                      : mean_interval(prompt_values);
    }
    result.measures.push_back({measures[i].name, estimate});
  }
  return result;
}

}  // namespace

std::vector<std::string> measure_names(int64_t samples) {
  std::vector<std::string> names;
  for (const NamedMeasure& measure : list_measures(samples, powers_of_two(samples))) names.push_back(measure.name);
  return names;
}

double pass_at_k(int64_t samples, int64_t solved, int64_t k) {
  if (samples - solved < k) return 1;
  double none = 1;  // C(n-c, k) / C(n, k), one factor at a time to avoid overflow
  for (int64_t i = samples - solved + 1; i <= samples; ++i) none *= 1 - static_cast<double>(k) / static_cast<double>(i);
  return 1 - none;
}

std::vector<int64_t> answer_classes(std::span<const FinalAnswer> answers) {
  std::vector<size_t> representatives;  // the first sample of each class
  std::vector<int64_t> classes;
  for (const FinalAnswer& answer : answers) {
    const auto find_class = [&](auto&& same) {
      return static_cast<size_t>(
          std::ranges::find_if(representatives, [&](size_t other) { return same(answers[other]); }) -
          representatives.begin());
    };
    size_t index = find_class([&](const FinalAnswer& other) { return other.text == answer.text; });
    if (index == representatives.size() && answer.is_math)
      index = find_class([&](const FinalAnswer& other) {
        return other.is_math && verify_math(other.text, answer.text, kMathSteps).correct;
      });
    if (index == representatives.size() && !answer.text.empty()) representatives.push_back(classes.size());
    classes.push_back(answer.text.empty() ? -1 : static_cast<int64_t>(index));
  }
  return classes;
}

double majority_at_k(std::span<const int64_t> classes, std::span<const double> solved, int64_t k) {
  const size_t size = static_cast<size_t>(k), blocks = classes.size() / size;
  double sum = 0;
  for (size_t block = 0; block < blocks; ++block)
    sum += majority_solved(classes.subspan(block * size, size), solved.subspan(block * size, size));
  return sum / static_cast<double>(blocks);
}

EvaluationStatistics evaluation_statistics(std::span<const ScoredPrompt> prompts) {
  std::vector<PromptSamples> collected;
  for (const ScoredPrompt& prompt : prompts) collected.push_back(collect_samples(prompt));
  std::vector<std::string> sources;
  std::map<std::string, std::vector<const PromptSamples*>> by_source;
  std::vector<const PromptSamples*> all;
  for (const PromptSamples& prompt : collected) {
    std::vector<const PromptSamples*>& same_source = by_source[prompt.source];
    if (same_source.empty()) sources.push_back(prompt.source);
    same_source.push_back(&prompt);
    all.push_back(&prompt);
  }
  const std::optional<TwoValues> values = find_two_values(all);
  EvaluationStatistics result{.all = summarize("", all, values), .sources = {}};
  for (const std::string& source : sources) result.sources.push_back(summarize(source, by_source[source], values));
  return result;
}

Json to_json(const SourceStatistics& statistics) {
  Json json = {{"prompts", statistics.prompts}, {"samples", statistics.samples}, {"unjudged", statistics.unscored}};
  for (const auto& [name, estimate] : statistics.measures) {
    Json& measure = json[name] = nullptr;
    if (estimate.prompts == 0) continue;
    const auto& interval = estimate.interval;
    measure = {{"mean", estimate.mean},
               {"low", interval ? Json(interval->first) : Json()},
               {"high", interval ? Json(interval->second) : Json()}};
    if (estimate.prompts < statistics.prompts) measure["prompts"] = estimate.prompts;
  }
  return json;
}

std::string to_table(const EvaluationStatistics& statistics) {
  std::vector<SourceStatistics> rows = statistics.sources;
  if (rows.size() > 1) rows.push_back(statistics.all), rows.back().source = "all sources";
  int width = 6;
  for (const SourceStatistics& source : rows) width = std::max(width, display_width(escape_controls(source.source)));
  const auto padded = [&](const std::string& text) {
    return text + std::string(static_cast<size_t>(width - display_width(text)), ' ');
  };
  std::string table = padded("source") + "  prompts  measure     mean   95 % interval\n";
  for (const SourceStatistics& source : rows) {
    for (const auto& [name, estimate] : source.measures) {
      char text[120];
      std::snprintf(text, sizeof(text), "  %7lld  %-8s  ", static_cast<long long>(estimate.prompts), name.c_str());
      table += padded(escape_controls(source.source)) + text;
      if (estimate.prompts == 0)
        std::snprintf(text, sizeof(text), "     -");
      else if (!estimate.interval)
        std::snprintf(text, sizeof(text), "%6.4f   none: %s", estimate.mean,
                      estimate.prompts == 1 ? "only one prompt" : "all rewards are equal");
      else
        std::snprintf(text, sizeof(text), "%6.4f   [%.4f, %.4f]", estimate.mean, estimate.interval->first,
                      estimate.interval->second);
      table += text + std::string("\n");
    }
  }
  return table;
}

}  // namespace keel
