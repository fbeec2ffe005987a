#include "keel/counterfactual/step_facts.h"

#include "keel/core/error.h"
#include "keel/core/str_cat.h"
#include "keel/objective/methods.h"

namespace keel {

StepFacts step_facts(const Json& metadata, const std::string& path) {
  const auto read = [&](const char* key, const auto& parse) {
    const auto reject = [&](const std::string& reason) {
      fail(ExitCode::kBadInput, path, ": its metadata keel.step has no valid \"", key, "\"", reason,
           "; the file was changed, or another program wrote it");
    };
    try {
      parse(metadata.at(key));
    } catch (const Json::exception&) {
      reject("");
    } catch (const Error& error) {  // an unknown method or an invalid parameter
      reject(str_cat(": ", error.what()));
    }
  };
  const auto get = [&](const char* key, auto& value) { read(key, [&](const Json& json) { json.get_to(value); }); };
  StepFacts result;
  get("step", result.step);
  read("method", [&](const Json& json) { result.method = find_method(json.get<std::string>(), "no method").name; });
  read("parameters", [&](const Json& json) { result.region = make_region(result.method, json); });
  if (metadata.contains("centering")) get("centering", result.centering);  // not in records of older versions
  get("top_k", result.top_k);
  get("kl_coefficient", result.kl_coefficient);
  read("kl_estimator", [&](const Json& json) { result.kl_estimator = parse_kl_estimator(json.get<std::string>()); });
  get("whole_sequences", result.whole_sequences);
  get("whole_batch", result.whole_batch);
  get("rollouts", result.rollouts);
  read("recorded_rollouts", [&](const Json& json) {
    const int64_t recorded = json.get_to(result.recorded_rollouts);
    if (recorded > result.rollouts || (result.whole_batch && recorded < result.rollouts))
      fail(ExitCode::kBadInput, recorded, " of ", result.rollouts, " completions, with whole_batch ",
           result.whole_batch ? "true" : "false");
  });
  return result;
}

}  // namespace keel
