#pragma once

#include <string>

#include "keel/core/console.h"

namespace keel {

/// The name of a model where a run may be named as well: a run's folder stands for its newest sound checkpoint. Which
/// one that is, and which ones are damaged, is told on the console, if there is one. Any other name stays as it is.
std::string model_named(const std::string& name, Console* console);

/// The same of an adapter's folder: a run or a checkpoint stands for the adapter in it.
std::string adapter_named(const std::string& name, Console* console);

/// A checkpoint of a run that trained an adapter has it in its weights, and so has what was made of it. Refuses
/// (kBadConfiguration) to put on any but one that was trained on that very folder; `setting` is what names the adapter.
void refuse_adapter_twice(const std::string& model, const std::string& adapter, const std::string& setting);

/// Whether a model's name is that of a checkpoint of this run.
bool is_checkpoint_of(const std::string& model, const std::string& run);

}  // namespace keel
