#include "keel/objective/aggregation.h"

#include <algorithm>
#include <array>
#include <map>

#include "keel/core/error.h"

namespace keel {

std::vector<int64_t> count_valid_tokens(std::span<const int64_t> lengths, std::span<const uint8_t> mask) {
  int64_t tokens = 0;
  for (const int64_t length : lengths) {
    if (length < 0) fail(ExitCode::kInternal, "a sequence of ", length, " tokens");
    tokens += length;
  }
  if (tokens != std::ssize(mask))
    fail(ExitCode::kInternal, "the sequences have ", tokens, " tokens in all, but the mask has ", mask.size());
  std::vector<int64_t> counts;
  for_each_sequence(lengths, [&](size_t, size_t begin, size_t end) {
    counts.push_back(std::ranges::count_if(mask.subspan(begin, end - begin), [](uint8_t valid) { return valid != 0; }));
  });
  return counts;
}

std::vector<double> sequence_weights(const std::string& kind, std::span<const int64_t> valid_tokens, double horizon,
                                     std::span<const int64_t> groups) {
  constexpr std::array kKnown{"token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm",
                              "prompt_mean"};
  if (std::ranges::find(kKnown, kind) == kKnown.end())
    fail(ExitCode::kBadConfiguration, "aggregation \"", kind,
         "\"; known: token_mean, seq_mean_token_mean, seq_mean_token_sum, seq_mean_token_sum_norm, prompt_mean");
  if (kind == "prompt_mean" && groups.size() != valid_tokens.size())
    fail(ExitCode::kBadConfiguration, "the aggregation prompt_mean needs the prompt of each of the ",
         valid_tokens.size(), " sequences, but got ", groups.size(), " groups");
  double tokens = 0, sequences = 0;
  for (const int64_t valid : valid_tokens) {
    tokens += static_cast<double>(valid);
    sequences += valid > 0 ? 1 : 0;
  }
  std::map<int64_t, double> tokens_of_prompt;  // of prompts with valid tokens
  if (kind == "prompt_mean")
    for (size_t s = 0; s < groups.size(); ++s)
      if (valid_tokens[s] > 0) tokens_of_prompt[groups[s]] += static_cast<double>(valid_tokens[s]);
  const auto weight = [&](size_t s) {
    const auto valid = static_cast<double>(valid_tokens[s]);
    if (kind == "prompt_mean")
      return 1 / (static_cast<double>(tokens_of_prompt.size()) * tokens_of_prompt.at(groups[s]));
    if (kind == "token_mean") return 1 / tokens;
    if (kind == "seq_mean_token_mean") return 1 / (sequences * valid);
    if (kind == "seq_mean_token_sum") return 1 / sequences;
    return 1 / (sequences * horizon);
  };
  std::vector<double> weights;
  for (size_t s = 0; s < valid_tokens.size(); ++s) weights.push_back(valid_tokens[s] > 0 ? weight(s) : 0.0);
  return weights;
}

Aggregate aggregate(const std::string& kind, std::span<const double> values, std::span<const uint8_t> mask,
                    std::span<const int64_t> lengths, double horizon, std::span<const int64_t> groups) {
  if (values.size() != mask.size())
    fail(ExitCode::kInternal, values.size(), " values to aggregate, but the mask has ", mask.size());
  const std::vector<double> weights = sequence_weights(kind, count_valid_tokens(lengths, mask), horizon, groups);
  Aggregate result{0, std::vector<double>(values.size(), 0.0)};
  for_each_sequence(lengths, [&](size_t s, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (mask[i] == 0) continue;
      result.weights[i] = weights[s];
      result.loss += weights[s] * values[i];
    }
  });
  return result;
}

}  // namespace keel
