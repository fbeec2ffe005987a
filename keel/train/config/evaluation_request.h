#pragma once

#include "keel/evaluation/evaluation.h"
#include "keel/model/loaded_model.h"
#include "keel/train/config/config.h"

namespace keel {

/// Builds the evaluation request from section `eval`, for a policy after `updates` updates.
EvaluationRequest evaluation_request(const Config& config, const LoadedModel& policy, int64_t updates);

}  // namespace keel
