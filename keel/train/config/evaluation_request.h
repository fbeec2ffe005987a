#pragma once

#include "keel/evaluation/evaluation.h"
#include "keel/train/config/config.h"

namespace keel {

/// What the section `eval` asks for, of weights that have seen so many updates.
EvaluationRequest evaluation_request(const Config& config, int64_t updates);

}  // namespace keel
