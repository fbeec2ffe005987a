#include "keel/objective/aggregation.h"

#include <algorithm>
#include <array>

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

std::vector<double> sequence_weights(const std::string& kind, std::span<const int64_t> valid_tokens, double horizon) {
  constexpr std::array kKnown{"token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm"};
  if (std::ranges::find(kKnown, kind) == kKnown.end())
    fail(ExitCode::kBadConfiguration, "aggregation \"", kind,
         "\"; known: token_mean, seq_mean_token_mean, seq_mean_token_sum, seq_mean_token_sum_norm");
  double tokens = 0, sequences = 0;
  for (const int64_t valid : valid_tokens) {
    tokens += static_cast<double>(valid);
    sequences += valid > 0 ? 1 : 0;
  }
  const auto weight = [&](double valid) {
    if (kind == "token_mean") return 1 / tokens;
    if (kind == "seq_mean_token_mean") return 1 / (sequences * valid);
    if (kind == "seq_mean_token_sum") return 1 / sequences;
    return 1 / (sequences * horizon);
  };
  std::vector<double> weights;
  for (const int64_t valid : valid_tokens) weights.push_back(valid > 0 ? weight(static_cast<double>(valid)) : 0.0);
  return weights;
}

Aggregate aggregate(const std::string& kind, std::span<const double> values, std::span<const uint8_t> mask,
                    std::span<const int64_t> lengths, double horizon) {
  if (values.size() != mask.size())
    fail(ExitCode::kInternal, values.size(), " values to aggregate, but the mask has ", mask.size());
  const std::vector<double> weights = sequence_weights(kind, count_valid_tokens(lengths, mask), horizon);
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
