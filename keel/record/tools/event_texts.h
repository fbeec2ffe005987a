#pragma once

#include <string>

#include "keel/core/json.h"
#include "keel/record/tools/exported_run.h"

namespace keel {

/// Formats a row of samples.jsonl: reward, prompt and completion, shortened.
ExportedSample make_exported_sample(const Json& row);

/// Formats trust_region/blocked_tokens of metrics.jsonl as a table; empty if it is not a list.
std::string blocked_tokens_text(const Json& tokens);

}  // namespace keel
