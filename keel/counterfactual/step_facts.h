#pragma once

#include <cstdint>
#include <string>

#include "keel/core/json.h"
#include "keel/objective/reference_kl.h"
#include "keel/objective/regions/trust_region.h"

namespace keel {

/// The facts of a step in its token record that decisions on its tokens depend on.
struct StepFacts {
  int64_t step = 0;
  std::string method;              // of the run
  TrustRegion region;              // with the parameters of this step
  std::string centering = "none";  // objective.centering; its term is not part of the coefficients
  int64_t top_k = 0;               // of the top-K divergences; 0: none recorded
  double kl_coefficient = 0;       // of the KL to the reference, whose gradient is part of every coefficient
  KlEstimator kl_estimator = KlEstimator::kK3;
  bool whole_sequences = true;  // completions are recorded completely
  bool whole_batch = true;      // all completions of the step are recorded
  int64_t rollouts = 0, recorded_rollouts = 0;
};

/// Parses keel.step of a record. A missing or unknown value is an error (exit code 3). `path` names the file.
StepFacts step_facts(const Json& metadata, const std::string& path);

}  // namespace keel
