#include "keel/objective/aggregation.h"

#include "keel/core/error.h"

namespace keel {

std::vector<double> sequence_weights(const std::string& kind, std::span<const int64_t> valid_tokens, double horizon) {
  double tokens = 0, sequences = 0;
  for (const int64_t valid : valid_tokens) {
    tokens += static_cast<double>(valid);
    sequences += valid > 0 ? 1 : 0;
  }
  const auto weight = [&](double valid) {
    if (kind == "token_mean") return 1 / tokens;
    if (kind == "seq_mean_token_mean") return 1 / (sequences * valid);
    if (kind == "seq_mean_token_sum") return 1 / sequences;
    if (kind == "seq_mean_token_sum_norm") return 1 / (sequences * horizon);
    fail(ExitCode::kBadConfiguration, "objective.aggregation is \"", kind,
         "\"; known: token_mean, seq_mean_token_mean, seq_mean_token_sum, seq_mean_token_sum_norm");
  };
  std::vector<double> weights;
  for (const int64_t valid : valid_tokens) weights.push_back(valid > 0 ? weight(static_cast<double>(valid)) : 0.0);
  return weights;
}

}  // namespace keel
