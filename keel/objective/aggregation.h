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

/// Tokens of each sequence that the mask [N] lets through; refuses lengths that are negative or do not sum to N.
std::vector<int64_t> count_valid_tokens(std::span<const int64_t> lengths, std::span<const uint8_t> mask);

/// The weight of every token of sequence s in the loss, for each s. Denominators are those of the whole update, so that
/// cutting it into micro-batches changes nothing. Sequences without a valid token are not counted.
///   token_mean               sum / tokens
///   seq_mean_token_mean      mean over sequences of their token mean
///   seq_mean_token_sum       mean over sequences of their token sum
///   seq_mean_token_sum_norm  that, divided by `horizon`
std::vector<double> sequence_weights(const std::string& kind, std::span<const int64_t> valid_tokens, double horizon);

/// One number for a batch of tokens, and what each token counted for in it.
struct Aggregate {
  double loss = 0;              // the sum of weight times value over the valid tokens; 0 when there are none
  std::vector<double> weights;  // [N], 0 where masked
};

/// The values [N] of sequences of these lengths as one number; a value where the mask is 0 is never read.
Aggregate aggregate(const std::string& kind, std::span<const double> values, std::span<const uint8_t> mask,
                    std::span<const int64_t> lengths, double horizon);

}  // namespace keel
