#pragma once

#include "keel/evaluation/evaluation.h"
#include "keel/train/config/config.h"

namespace keel {

/// What the section `eval` asks for.
EvaluationRequest evaluation_request(const Config& config);

}  // namespace keel
