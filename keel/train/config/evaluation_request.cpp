#include "keel/train/config/evaluation_request.h"

namespace keel {

EvaluationRequest evaluation_request(const Config& config, const LoadedModel& policy, int64_t updates) {
  return {.samples = config.eval.samples,
          .temperature = config.eval.temperature,
          .filter = {.top_k = config.eval.top_k, .top_p = config.eval.top_p},
          .max_new_tokens = resolve_max_new_tokens(config),
          .stop_ids = policy.stop_ids,
          .stop_strings = config.rollout.stop_strings,
          .seed = config.run.seed,
          .max_sequences = config.rollout.max_sequences,
          .reward_threads = config.reward.worker_count(),
          .policy_version = static_cast<uint64_t>(updates)};
}

}  // namespace keel
