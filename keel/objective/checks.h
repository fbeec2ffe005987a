#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "keel/objective/regions/trust_region.h"

namespace keel {

// Validation of tensors that come from outside, such as the Python API. Errors (exit code 2) name the argument and the
// first invalid index. Each check copies one number from the device. Training creates these tensors itself: it skips
// the checks and counts invalid tokens on the device instead (train/metrics/token_metrics.h).

/// Requires a float32 or float64 vector that matches `like`, if given, in type, device and length.
void check_float_vector(const char* name, const Tensor& tensor, const Tensor& like = {});

/// Converts flags [N] to bool. Requires booleans, or numbers that are all 0 or 1.
Tensor as_bool_flags(const char* name, const Tensor& flags, const Tensor& like);

/// Require finite log-probs <= 0, and finite values, in all unmasked tokens; [N] or [N, K]. The mask [N] is optional.
void check_log_probs(const char* name, const Tensor& logp, const Tensor& mask);
void check_finite(const char* name, const Tensor& values, const Tensor& mask);

/// Requires unmasked values small enough that float32 sums and products stay finite.
void check_magnitude(const char* name, const Tensor& values, const Tensor& mask = {});

/// Requires full rows of log-probs [N, V] that sum to probability 1; -inf is allowed.
void check_distributions(const char* name, const Tensor& logp);

/// Requires lengths >= 0 that sum to `tokens`.
void check_lengths(std::span<const int64_t> lengths, int64_t tokens);

/// Requires every field that `needs` names, with matching shapes and valid values.
void check_loss_inputs(const LossInputs& inputs, const Requirements& needs);

/// Requires rows of log-probs [N, K] of the same tokens under both policies, one for each of the advantages: of
/// distinct tokens, or of the whole vocabulary.
void check_centering_rows(const Tensor& logp, const Tensor& behavior_logp, const Tensor& advantages, const Tensor& mask,
                          bool whole_vocabulary);

/// Requires what the region needs beyond check_loss_inputs(): one advantage per sequence if it has one weight per
/// sequence, divergences of its kind, at most k top-k tokens, and sequences that fit its parameters.
void check_region_inputs(const TrustRegion& region, const LossInputs& inputs, const std::string& method);

}  // namespace keel
