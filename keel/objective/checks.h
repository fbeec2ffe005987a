#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "keel/objective/regions/trust_region.h"

namespace keel {

// What a caller from outside may get wrong, said before it turns into a wrong number. Errors (exit code 2) name the
// argument and its first offending place. Each check reads one number back from the device; training, which makes these
// tensors itself, does not call them and counts bad tokens on the device instead (train/metrics/token_metrics.h).

/// One-dimensional, float32 or float64, as `like` in type, device and length where that is given.
void check_float_vector(const char* name, const Tensor& tensor, const Tensor& like = {});

/// Flags [N] as booleans, where they are booleans or numbers that are all 0 or 1.
Tensor as_bool_flags(const char* name, const Tensor& flags, const Tensor& like);

/// Finite and not above 0 wherever the mask [N] (undefined: everywhere) is true; [N] or [N, K].
void check_log_probs(const char* name, const Tensor& logp, const Tensor& mask);

/// Finite wherever the mask is true.
void check_finite(const char* name, const Tensor& values, const Tensor& mask);

/// Fails unless every valid number is small enough that sums and products of float32 stay finite.
void check_magnitude(const char* name, const Tensor& values, const Tensor& mask = {});

/// Whole rows of log-probs [N, V]; a probability of 0 is one.
void check_distributions(const char* name, const Tensor& logp);

/// None negative, and `tokens` in all.
void check_lengths(std::span<const int64_t> lengths, int64_t tokens);

/// The fields of the policy that the requirements name are there, agree with one another, and can be what they say:
/// log-probs, rows of at most probability 1, divergences.
void check_loss_inputs(const LossInputs& policy, const Requirements& needs);

/// What a region's own maths asks of a sound policy: one advantage for all tokens of a sequence where the region has
/// one weight for the sequence, exact divergences that are what it measures, rows of at most k likeliest tokens, and no
/// sequence too long for its parameters.
void check_region_inputs(const TrustRegion& region, const LossInputs& policy, const std::string& method);

}  // namespace keel
