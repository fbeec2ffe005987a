#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace keel {

/// Calls visit(s, begin, end) for each sequence of a flat array over tokens.
template <class Visit>
void for_each_sequence(std::span<const int64_t> lengths, Visit visit) {
  size_t begin = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    const size_t end = begin + static_cast<size_t>(lengths[s]);
    visit(s, begin, end);
    begin = end;
  }
}

/// Counts the unmasked tokens of each sequence. Fails if a length is negative or the lengths do not sum to N.
std::vector<int64_t> count_valid_tokens(std::span<const int64_t> lengths, std::span<const uint8_t> mask);

/// Returns for each sequence the loss weight of its tokens. Denominators count the whole update, so that splitting it
/// into micro-batches does not change the loss. Sequences without valid tokens are not counted.
///   token_mean               sum / tokens
///   seq_mean_token_mean      mean over sequences of their token mean
///   seq_mean_token_sum       mean over sequences of their token sum
///   seq_mean_token_sum_norm  seq_mean_token_sum divided by `horizon`
///   prompt_mean              mean over prompts of the token mean of their completions; `groups` has each one's prompt
std::vector<double> sequence_weights(const std::string& kind, std::span<const int64_t> valid_tokens, double horizon,
                                     std::span<const int64_t> groups = {});

/// The aggregated loss of a batch and the weight of each token in it.
struct Aggregate {
  double loss = 0;              // sum of weight * value over the valid tokens; 0 if there are none
  std::vector<double> weights;  // [N], 0 where masked
};

/// Aggregates the token values [N] of sequences with these lengths. Masked values are never read.
Aggregate aggregate(const std::string& kind, std::span<const double> values, std::span<const uint8_t> mask,
                    std::span<const int64_t> lengths, double horizon, std::span<const int64_t> groups = {});

}  // namespace keel
