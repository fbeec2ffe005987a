#pragma once

#include <string>

#include "keel/core/console.h"

namespace keel {

/// The name of a model where a run may be named as well: a run's folder stands for its newest sound checkpoint, and
/// RUN/checkpoints/best for the one it leads to now. Which one that is, and which ones are damaged, is told on the
/// console, if there is one. Any other name stays as it is.
std::string resolve_model(const std::string& name, Console* console);

/// The same of an adapter's folder: a run or a checkpoint stands for the adapter in it.
std::string resolve_adapter(const std::string& name, Console* console);

/// Refuses (kBadConfiguration) to put an adapter on other weights than those of its base, where that can be looked at.
/// A checkpoint of a run that trained an adapter has it in its weights, and so has what was made of it: where the base
/// cannot be looked at, no adapter is put on such weights. `setting` is what names the adapter.
void require_adapter_base(const std::string& model, const std::string& adapter, const std::string& setting);

/// Whether a model's name is that of a checkpoint of this run, which may be named by its best one.
bool is_checkpoint_of(const std::string& model, const std::string& run);

}  // namespace keel
