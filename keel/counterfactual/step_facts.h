#pragma once

#include <cstdint>
#include <string>

#include "keel/core/json.h"
#include "keel/objective/reference_kl.h"
#include "keel/objective/regions/trust_region.h"

namespace keel {

/// What a token record says of its step, as far as a decision on its tokens depends on it.
struct StepFacts {
  int64_t step = 0;
  std::string method;                           // the run's own
  TrustRegion region;                           // of that, with its parameters in the step
  int64_t top_k = 0;                            // of the top-K divergences; 0: there are none
  double kl_coefficient = 0;                    // of the pull to the reference, which is in every coefficient
  KlEstimator kl_estimator = KlEstimator::kK3;  // of that
  bool whole_sequences = true;                  // completions are recorded from their first token to their last
  bool whole_batch = true;                      // all completions of the step are recorded
  int64_t rollouts = 0, recorded_rollouts = 0;
};

/// From keel.step of a record; refuses (exit code 3) one that lacks something or names what is unknown. `place` names
/// the file.
StepFacts step_facts(const Json& facts, const std::string& place);

}  // namespace keel
