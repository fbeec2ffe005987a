#pragma once

#include "keel/core/json.h"
#include "keel/model/loaded_model.h"
#include "keel/train/config/config.h"
#include "keel/train/start/demonstrations.h"
#include "keel/train/start/prompt_sources.h"

namespace keel {

/// Its entry for what the adapter that a run starts from has in it.
inline constexpr const char* kAdapterFingerprintKey = "lora.adapter_weights";

/// What a run is made of, as "section.key" to value: the settings that have an effect in it, with the numbers that null
/// and 0 stand for filled in, and what the model's files say of it. It is what used.json holds and a report shows.
Json resolved_config(const Config& config, const LoadedModel& policy, const PromptSources& prompt_sources,
                     const Demonstrations& demonstrations);

}  // namespace keel
