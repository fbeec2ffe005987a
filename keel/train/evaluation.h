#pragma once

#include <functional>
#include <vector>

#include "keel/model/loaded_model.h"
#include "keel/rollout/engine.h"
#include "keel/task/task.h"

namespace keel {

/// Accuracy on held-out prompts, one sampled completion each.
struct Evaluation {
  int64_t count = 0;                       // prompts judged: fewer than asked for when it was told to stop
  double accuracy = 0, low = 0, high = 0;  // with Wilson's 95 % interval
  double length_mean = 0, truncated = 0;
  std::vector<Prompt> prompts;
  std::vector<Rollout> rollouts;
};

/// Wilson's 95 % score interval of `successes` in `count`.
std::pair<double, double> wilson_interval(double successes, double count);

/// The first `count` held-out problems of the seed, the same at every call. `stop` is asked between batches of
/// `max_sequences` prompts.
Evaluation evaluate(const LoadedModel& policy, const Task& task, const std::string& task_name, int64_t count,
                    int64_t max_new_tokens, double temperature, uint64_t seed, int64_t max_sequences,
                    const std::function<bool()>& stop = {});

}  // namespace keel
