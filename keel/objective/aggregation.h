#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace keel {

/// The weight of every token of sequence s in the loss, for each s. Denominators are those of the whole update, so that
/// cutting it into micro-batches changes nothing. Sequences without a valid token are not counted.
///   token_mean               sum / tokens
///   seq_mean_token_mean      mean over sequences of their token mean
///   seq_mean_token_sum       mean over sequences of their token sum
///   seq_mean_token_sum_norm  that, divided by `horizon`
std::vector<double> sequence_weights(const std::string& kind, std::span<const int64_t> valid_tokens, double horizon);

}  // namespace keel
