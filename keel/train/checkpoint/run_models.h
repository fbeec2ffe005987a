#pragma once

#include <string>

#include "keel/core/console.h"

namespace keel {

/// Resolves a model name: a run's folder becomes its newest valid checkpoint, and RUN/checkpoints/best its target.
/// Other names are returned unchanged. If `console` is not null, prints the checkpoint, any damaged ones, and a warning
/// if transformers 5 reads the model's tokenizer differently.
std::string resolve_model(const std::string& name, Console* console);

/// The same for an adapter: a run or a checkpoint becomes the adapter in it.
std::string resolve_adapter(const std::string& name, Console* console);

/// Fails (kBadConfiguration) if the model's weights differ from the adapter's base, or if the base is unavailable and
/// the model already has a merged adapter, as checkpoints of adapter runs have. `setting` names the adapter in errors.
void require_adapter_base(const std::string& model, const std::string& adapter, const std::string& setting);

/// Returns whether `model` is a checkpoint of `run`, which may also be given as RUN/checkpoints/best.
bool is_checkpoint_of(const std::string& model, const std::string& run);

}  // namespace keel
