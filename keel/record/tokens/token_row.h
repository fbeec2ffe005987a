#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace keel {

/// One token of one update: what was known of it and what was decided. A member is a column of the run's token records;
/// docs/tokens.md says what each is.
struct TokenRow {
  static constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();  // null in a file

  int64_t step = 0;            // of the run, from 1
  int64_t update = 0;          // of the step, from 0: epochs and minibatches in their order
  int64_t prompt = 0;          // its id
  int64_t group = 0;           // the prompt's place in the step; rollouts of one prompt form a group
  int64_t rollout = 0;         // its id
  int64_t policy_version = 0;  // updates that the weights had seen which sampled it
  int32_t position = 0;        // in the completion, from 0
  int32_t token_id = 0;
  std::string token;                // as it reads in the text
  float log_mu = 0, log_pi = 0;     // of the sampler, and of the policy that is trained
  float log_other_mu = kUnknown;    // log(1 - mu)
  float log_other_pi = kUnknown;    // log(1 - pi)
  float log_recomputed = kUnknown;  // the trainer's own at the sampling weights
  float log_other_recomputed = kUnknown;
  float log_reference = kUnknown;  // of the policy that RL starts from
  // Over the sampler's likeliest tokens and the sampled one, which comes beside them or in the place of the last.
  float topk_tv = kUnknown, topk_kl = kUnknown;
  float topk_tv_replace_last = kUnknown, topk_kl_replace_last = kUnknown;
  float full_tv = kUnknown, full_kl = kUnknown;  // over all tokens
  float divergence = 0;                          // that the method used
  float threshold = 0;                           // that it held it against
  float ratio = 0;                               // pi / mu
  float advantage = 0;
  float coefficient = 0;     // of grad log pi, before aggregation
  float weight = 0;          // the aggregation's, which multiplies it
  bool kept = true;          // false: blocked by the trust region
  bool outside = false;      // beyond the region, blocked or not
  float entropy = kUnknown;  // of pi
  float entropy_mu = kUnknown;
  double reward = 0;  // of the completion
};

}  // namespace keel
