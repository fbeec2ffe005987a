#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace keel {

/// One token in one update with its statistics and decision. Each member is a column of the token records;
/// docs/tokens.md defines them.
struct TokenRow {
  static constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();  // null in a file

  int64_t step = 0;            // of the run, from 1
  int64_t update = 0;          // of the step, from 0: epochs and minibatches in their order
  int64_t prompt = 0;          // its id
  int64_t group = 0;           // index of the prompt in the step; rollouts of one prompt form a group
  int64_t rollout = 0;         // its id
  int64_t policy_version = 0;  // number of updates of the sampling weights
  int32_t position = 0;        // in the completion, from 0
  int32_t token_id = 0;
  std::string token;                // text of the token
  float log_mu = 0, log_pi = 0;     // of the sampler and of the trained policy
  float log_other_mu = kUnknown;    // log(1 - mu)
  float log_other_pi = kUnknown;    // log(1 - pi)
  float log_recomputed = kUnknown;  // recomputed by the trainer at the sampling weights
  float log_other_recomputed = kUnknown;
  float log_reference = kUnknown;  // of the reference policy
  // Over the sampler's top-k tokens plus the sampled one, which is added or replaces the last (replace_last).
  float topk_tv = kUnknown, topk_kl = kUnknown;
  float topk_tv_replace_last = kUnknown, topk_kl_replace_last = kUnknown;
  float full_tv = kUnknown, full_kl = kUnknown;  // over the vocabulary
  float divergence = 0;                          // divergence of the method
  float threshold = 0;                           // threshold of the method
  float ratio = 0;                               // pi / mu
  float advantage = 0;
  float coefficient = 0;     // of grad log pi, before aggregation
  float weight = 0;          // aggregation weight, multiplies the coefficient
  bool kept = true;          // false: blocked by the trust region
  bool outside = false;      // outside the region, blocked or not
  float entropy = kUnknown;  // of pi
  float entropy_mu = kUnknown;
  float choices = kUnknown;  // number of tokens that truncated sampling kept
  double reward = 0;         // of the completion
};

}  // namespace keel
