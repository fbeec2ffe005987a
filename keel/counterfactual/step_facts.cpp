#include "keel/counterfactual/step_facts.h"

#include "keel/core/error.h"

namespace keel {

StepFacts step_facts(const Json& facts, const std::string& place) {
  const auto get = [&](const char* key, auto& value) {
    try {
      facts.at(key).get_to(value);
    } catch (const Json::exception&) {
      fail(ExitCode::kBadInput, place, ": what it says of the step (keel.step) has no sound \"", key,
           "\"; the record was changed, or another program wrote it");
    }
  };
  StepFacts result;
  std::string estimator;
  get("step", result.step);
  get("method", result.method);
  get("parameters", result.parameters);
  get("top_k", result.top_k);
  get("kl_coefficient", result.kl_coefficient);
  get("kl_estimator", estimator);
  get("whole_sequences", result.whole_sequences);
  get("whole_batch", result.whole_batch);
  get("rollouts", result.rollouts);
  get("recorded_rollouts", result.recorded_rollouts);
  result.kl_estimator = kl_estimator(estimator);
  return result;
}

}  // namespace keel
