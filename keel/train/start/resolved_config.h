#pragma once

#include "keel/core/json.h"
#include "keel/model/loaded_model.h"
#include "keel/train/config/config.h"
#include "keel/train/start/demonstrations.h"
#include "keel/train/start/prompt_sources.h"

namespace keel {

/// The key of the fingerprint of the adapter that the run starts from.
inline constexpr const char* kAdapterFingerprintKey = "lora.adapter_weights";

/// Returns the configuration in effect for used.json and the report, as "section.key" to value: settings without effect
/// are dropped, null and 0 are replaced by the values that they stand for, and model metadata is added.
Json resolved_config(const Config& config, const LoadedModel& policy, const PromptSources& prompt_sources,
                     const Demonstrations& demonstrations);

}  // namespace keel
