#pragma once

#include <string>

#include "keel/core/json.h"
#include "keel/record/tools/exported_run.h"

namespace keel {

/// A row of samples.jsonl as a person reads it: reward, prompt and completion, each of some length at most.
ExportedSample exported_sample(const Json& row);

/// The list trust_region/blocked_tokens of metrics.jsonl as a table; empty where it is none.
std::string blocked_tokens_text(const Json& tokens);

}  // namespace keel
