#include "keel/objective/checks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "keel/core/error.h"
#include "keel/objective/aggregation.h"
#include "keel/objective/regions/region_parameters.h"
#include "keel/objective/regions/sequence_reducer.h"

namespace keel {
namespace {

/// Maximum excess over 1 of a sum of K probabilities, from float32 rounding.
constexpr double kRowTolerance = 1e-4;

/// Maximum deviation from 1 of the sum over a whole vocabulary, from float32 rounding.
constexpr double kDistributionTolerance = 1e-3;

/// Maximum difference between two computations of one probability, even in half precision.
constexpr double kSampledTolerance = 1e-2;

/// Maximum relative difference between copies of one advantage, from rounding.
constexpr double kEqualTolerance = 1e-6;

std::string shape_text(const Tensor& tensor) {
  std::string text = "[";
  for (const int64_t size : tensor.sizes()) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

void check_dense(const char* name, const Tensor& tensor) {
  if (tensor.layout() != at::kStrided)
    fail(ExitCode::kBadConfiguration, name, " is a sparse tensor; expected a dense one: convert it with .to_dense()");
}

void check_type(const char* name, const Tensor& tensor, const Tensor& like) {
  check_dense(name, tensor);
  const at::ScalarType type = tensor.scalar_type();
  if (type != at::kFloat && type != at::kDouble)
    fail(ExitCode::kBadConfiguration, name, " is ", c10::toString(type),
         "; expected float32 or float64 (half precision is too coarse for log-probabilities): convert it with "
         ".float()");
  if (!like.defined()) return;
  if (type != like.scalar_type())
    fail(ExitCode::kBadConfiguration, name, " is ", c10::toString(type), ", but the first tensor is ",
         c10::toString(like.scalar_type()), "; expected one dtype for all tensors");
  if (tensor.device() != like.device())
    fail(ExitCode::kBadConfiguration, name, " is on ", tensor.device().str(), ", but the first tensor is on ",
         like.device().str(), "; expected one device for all tensors");
}

void check_shape_and_device(const char* name, const Tensor& flags, const Tensor& like) {
  check_dense(name, flags);
  if (flags.sizes() != like.sizes())
    fail(ExitCode::kBadConfiguration, name, " has the shape ", shape_text(flags), "; expected ", shape_text(like));
  if (flags.device() != like.device())
    fail(ExitCode::kBadConfiguration, name, " is on ", flags.device().str(), ", but the first tensor is on ",
         like.device().str(), "; expected one device for all tensors");
}

void check_flags(const char* name, const Tensor& flags, const Tensor& like) {
  if (flags.scalar_type() != at::kBool)
    fail(ExitCode::kBadConfiguration, name, " is ", c10::toString(flags.scalar_type()), "; expected a bool tensor");
  check_shape_and_device(name, flags, like);
}

/// Fails with the first index where `bad` is true and the token is not masked.
void fail_at_first(const char* name, const Tensor& values, const Tensor& bad, const Tensor& mask,
                   const char* expected) {
  Tensor unmasked = bad;
  if (mask.defined()) unmasked = unmasked.logical_and(values.dim() == 2 ? mask.unsqueeze(1) : mask);
  if (!unmasked.any().item<bool>()) return;
  const Tensor position = unmasked.nonzero()[0];
  std::string index;
  Tensor value = values;
  for (int64_t d = 0; d < position.numel(); ++d) {
    const int64_t i = position[d].item<int64_t>();
    index += (d == 0 ? "" : ", ") + std::to_string(i);
    value = value[i];
  }
  fail(ExitCode::kBadConfiguration, name, "[", index, "] is ", value.item<double>(), "; expected ", expected);
}

/// Requires that `other_logp`, if given, is log(1 - p).
void check_other(const char* name, const Tensor& other_logp, const char* logp_name, const Tensor& logp,
                 const Tensor& mask) {
  if (!other_logp.defined()) return;
  check_float_vector(name, other_logp, logp);
  fail_at_first(name, other_logp, (other_logp <= 0).logical_not(), mask,
                "the log-probability of all other tokens: at most 0, or -inf");
  const Tensor sum = other_logp.exp() + logp.exp();
  const std::string expected = std::string("log(1 - exp(") + logp_name + ")), so that the two probabilities sum to 1";
  fail_at_first(name, other_logp, (sum - 1).abs() > kRowTolerance, mask, expected.c_str());
}

void check_topk(const LossInputs& p) {
  const auto check_rows = [&](const char* name, const Tensor& rows) {
    check_type(name, rows, p.logp);
    if (rows.dim() != 2 || rows.size(0) != p.logp.numel() || rows.size(1) == 0)
      fail(ExitCode::kBadConfiguration, name, " has the shape ", shape_text(rows), "; expected [", p.logp.numel(),
           ", K]");
    check_log_probs(name, rows, p.mask);
  };
  check_rows("topk_behavior_logp", p.topk_behavior_logp);
  check_rows("topk_logp", p.topk_logp);
  if (p.topk_logp.sizes() != p.topk_behavior_logp.sizes())
    fail(ExitCode::kBadConfiguration, "topk_logp has the shape ", shape_text(p.topk_logp), ", topk_behavior_logp ",
         shape_text(p.topk_behavior_logp), "; expected the same tokens in both");
  check_flags("sampled_in_topk", p.sampled_in_topk, p.logp);
  const auto check_sum = [&](const char* name, const Tensor& rows, const Tensor& sampled) {
    const Tensor sum = rows.exp().sum(1) + sampled.exp().masked_fill(p.sampled_in_topk, 0);
    fail_at_first(
        name, sum, sum > 1 + kRowTolerance, p.mask,
        "probabilities that add up to at most 1 (shown: the sum over the row, plus the sampled token if it is not "
        "in the row): log-probs of distinct tokens of one distribution");
  };
  check_sum("topk_behavior_logp", p.topk_behavior_logp, p.behavior_logp);
  check_sum("topk_logp", p.topk_logp, p.logp);
  // If the sampled token is one of the K, one entry of the row has its probability under both policies.
  const auto distance = [](const Tensor& rows, const Tensor& sampled) {
    return (rows.exp() - sampled.exp().unsqueeze(1)).abs();
  };
  const Tensor nearest =
      at::maximum(distance(p.topk_behavior_logp, p.behavior_logp), distance(p.topk_logp, p.logp)).amin(1);
  fail_at_first("sampled_in_topk", p.sampled_in_topk, p.sampled_in_topk.logical_and(nearest > kSampledTolerance),
                p.mask, "0: no token of the row has the sampled token's logp and behavior_logp");
}

/// Requires one advantage for all valid tokens of a sequence.
void check_one_advantage(const LossInputs& p, const std::string& method) {
  const Tensor advantages = p.advantages.to(at::kCPU, at::kDouble).contiguous();
  const Tensor mask = p.mask.defined() ? p.mask.to(at::kCPU).contiguous() : at::ones(advantages.sizes(), at::kBool);
  const double* values = advantages.data_ptr<double>();
  const bool* valid = mask.data_ptr<bool>();
  for_each_sequence(sequence_lengths(p), [&](size_t, size_t begin, size_t end) {
    while (begin < end && !valid[begin]) ++begin;
    for (size_t i = begin; i < end; ++i)
      if (valid[i] && std::abs(values[i] - values[begin]) > kEqualTolerance * std::abs(values[begin]))
        fail(ExitCode::kBadConfiguration, "advantages[", i, "] is ", values[i], ", but advantages[", begin,
             "] of the same sequence is ", values[begin], "; ", method,
             " has one weight per sequence: expected one advantage for all tokens of a sequence (set `lengths`)");
  });
}

void require(bool needed, const Tensor& given, const char* name, const char* what) {
  if (needed && !given.defined())
    fail(ExitCode::kBadConfiguration, name, " is not given, but these parameters need ", what);
}

}  // namespace

void check_float_vector(const char* name, const Tensor& tensor, const Tensor& like) {
  check_type(name, tensor, like);
  if (tensor.dim() != 1 || (like.defined() && tensor.numel() != like.numel()))
    fail(ExitCode::kBadConfiguration, name, " has the shape ", shape_text(tensor), "; expected ",
         like.defined() ? shape_text(like) : "[N]", ": one number per token, with the sequences concatenated");
}

Tensor as_bool_flags(const char* name, const Tensor& flags, const Tensor& like) {
  check_shape_and_device(name, flags, like);
  if (flags.scalar_type() == at::kBool) return flags;
  if (flags.is_complex()) fail(ExitCode::kBadConfiguration, name, " is complex; expected booleans, or 0 and 1");
  fail_at_first(name, flags, (flags == 0).logical_or(flags == 1).logical_not(), {}, "a boolean, or 0 or 1");
  return flags != 0;
}

void check_log_probs(const char* name, const Tensor& logp, const Tensor& mask) {
  fail_at_first(name, logp, logp.isfinite().logical_and(logp <= 0).logical_not(), mask,
                "a log-probability: finite and at most 0 (mask invalid tokens)");
}

void check_finite(const char* name, const Tensor& values, const Tensor& mask) {
  fail_at_first(name, values, values.isfinite().logical_not(), mask, "a finite number");
}

void check_distributions(const char* name, const Tensor& logp) {
  fail_at_first(name, logp, logp.isnan().logical_or(logp > 0), {},
                "a log-probability: at most 0 (pass the output of log_softmax, not logits)");
  const Tensor sum = logp.exp().sum(-1);
  fail_at_first(name, sum, (sum - 1).abs() > kDistributionTolerance, {},
                "probabilities that add up to 1 (shown: the sum): a full row of log_softmax output");
}

void check_lengths(std::span<const int64_t> lengths, int64_t tokens) {
  int64_t sum = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    if (lengths[s] < 0) fail(ExitCode::kBadConfiguration, "lengths[", s, "] is ", lengths[s], "; expected 0 or more");
    if (lengths[s] > tokens - sum)  // compared before adding, because the sum could overflow
      fail(ExitCode::kBadConfiguration, "lengths[", s, "] is ", lengths[s], ", but only ", tokens - sum, " of the ",
           tokens, " tokens are left; expected the length of every sequence, including masked tokens");
    sum += lengths[s];
  }
  if (sum != tokens)
    fail(ExitCode::kBadConfiguration, "lengths add up to ", sum, ", but there are ", tokens,
         " tokens; expected the length of every sequence, including masked tokens");
}

void check_magnitude(const char* name, const Tensor& values, const Tensor& mask) {
  fail_at_first(name, values, values.abs() > 1e30, mask, "a number from -1e30 to 1e30, so that sums stay finite");
}

void check_loss_inputs(const LossInputs& p, const Requirements& needs) {
  check_float_vector("logp", p.logp);
  check_float_vector("behavior_logp", p.behavior_logp, p.logp);
  check_float_vector("advantages", p.advantages, p.logp);
  if (p.mask.defined()) check_flags("mask", p.mask, p.logp);
  check_log_probs("logp", p.logp, p.mask);
  check_log_probs("behavior_logp", p.behavior_logp, p.mask);
  check_other("other_logp", p.other_logp, "logp", p.logp, p.mask);
  check_other("behavior_other_logp", p.behavior_other_logp, "behavior_logp", p.behavior_logp, p.mask);
  check_finite("advantages", p.advantages, p.mask);
  check_magnitude("advantages", p.advantages, p.mask);
  if (!p.lengths.empty()) check_lengths(p.lengths, p.logp.numel());
  const size_t sequences = p.lengths.empty() ? 1 : p.lengths.size();
  if (!p.groups.empty() && p.groups.size() != sequences)
    fail(ExitCode::kBadConfiguration, "groups has ", p.groups.size(), " entries; expected one for each of the ",
         sequences, " sequences of lengths");
  require(needs.recomputed_logp, p.old_logp, "old_logp", "the trainer's own log-probs at the sampling weights");
  if (needs.recomputed_logp) {
    check_float_vector("old_logp", p.old_logp, p.logp);
    check_log_probs("old_logp", p.old_logp, p.mask);
    check_other("old_other_logp", p.old_other_logp, "old_logp", p.old_logp, p.mask);
  }
  require(needs.top_k > 0, p.topk_behavior_logp, "topk_behavior_logp", "the sampler's most likely tokens");
  require(needs.top_k > 0, p.topk_logp, "topk_logp", "the sampler's most likely tokens");
  require(needs.top_k > 0, p.sampled_in_topk, "sampled_in_topk", "the sampler's most likely tokens");
  if (needs.top_k > 0) check_topk(p);
  require(needs.hidden_states, p.divergence, "divergence", "the exact divergence of every token");
  if (needs.hidden_states) {
    check_float_vector("divergence", p.divergence, p.logp);
    // An infinite divergence is valid: it exceeds every threshold.
    fail_at_first("divergence", p.divergence, (p.divergence >= 0).logical_not(), p.mask, "a number of at least 0");
  }
}

void check_centering_rows(const Tensor& logp, const Tensor& behavior_logp, const Tensor& advantages, const Tensor& mask,
                          bool whole_vocabulary) {
  const auto check_rows = [&](const char* name, const Tensor& rows) {
    check_type(name, rows, advantages);
    if (rows.dim() != 2 || rows.size(0) != advantages.numel() || rows.size(1) == 0 || rows.sizes() != logp.sizes())
      fail(ExitCode::kBadConfiguration, name, " has the shape ", shape_text(rows), "; expected [", advantages.numel(),
           whole_vocabulary ? ", V]" : ", K]", ", the same tokens for both policies");
    fail_at_first(name, rows, (rows <= 0).logical_not(), mask, "a log-probability: at most 0");
    const Tensor sum = rows.exp().sum(1);
    if (whole_vocabulary)
      fail_at_first(name, sum, (sum - 1).abs() > kDistributionTolerance, mask,
                    "probabilities that add up to 1 (shown: the sum): a full row of log_softmax output");
    else
      fail_at_first(name, sum, sum > 1 + kRowTolerance, mask,
                    "probabilities that add up to at most 1 (shown: the sum): log-probs of distinct tokens");
  };
  check_rows("centering_logp", logp);
  check_rows("centering_behavior_logp", behavior_logp);
}

namespace {

constexpr double kRounding = 1e-4;  // error of a float32 sum over a vocabulary

/// Requires rows of at most k tokens. They are narrower if the vocabulary is smaller than k.
void check_top_k(const LossInputs& p, int64_t k, const std::string& method) {
  if (k == 0 || p.topk_behavior_logp.size(1) <= k) return;
  fail(ExitCode::kBadConfiguration, "topk_behavior_logp has rows of ", p.topk_behavior_logp.size(1), " tokens, but ",
       method, "'s parameter \"k\" is ", k,
       "; expected the k most likely tokens, or the parameter k=", p.topk_behavior_logp.size(1));
}

}  // namespace

void check_region_inputs(const TrustRegion& region, const LossInputs& p, const std::string& method) {
  const Requirements needs = requirements(region);
  if (properties(region).needs_sequence_advantage) check_one_advantage(p, method);
  if (p.divergence.defined() && needs.hidden_states && !needs.exact_kl)
    fail_at_first("divergence", p.divergence, p.divergence > 1 + kRounding, p.mask, "a total variation, 0 to 1");
  check_top_k(p, needs.top_k, method);
  if (!check_length(region, static_cast<double>(p.logp.numel()))) return;  // then no sequence is too long either
  const Tensor mask = p.mask.defined() ? p.mask.to(at::kCPU).contiguous() : at::ones({p.logp.numel()}, at::kBool);
  const bool* valid = mask.data_ptr<bool>();
  for_each_sequence(sequence_lengths(p), [&](size_t s, size_t begin, size_t end) {
    const auto found = check_length(region, static_cast<double>(std::count(valid + begin, valid + end, true)));
    if (found) fail(ExitCode::kBadConfiguration, method, ": sequence ", s, ": ", found->reason);
  });
}

}  // namespace keel
