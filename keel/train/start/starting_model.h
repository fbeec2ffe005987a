#pragma once

#include "keel/model/loaded_model.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"

namespace keel {

/// Files need a model that can read them, and training needs files to train on.
void check_model_and_data(const Config& config);

/// What a run starts from: the model that model.path names, with its own tokenizer, or a network made from nothing that
/// speaks the task's words. In float32 until it is told to compute in another type, once an adapter is on it.
LoadedModel load_starting_model(const Config& config, at::Device device);

/// What the network is to compute in, and puts that in the place of run.precision's auto.
at::ScalarType resolve_precision(RunOptions& run, at::Device device);

/// The same with zeros for weights, which take no memory, where model.path is a folder: for checks before reading them.
LoadedModel starting_model_without_weights(const Config& config);

/// Its architecture alone.
ModelConfig starting_model_config(const Config& config);

/// Refuses a model that this machine has no memory to train: the system might kill the process without a message.
void require_memory(const ModelConfig& shape, const Config& config);

/// Adds the adapter that the configuration asks for, a new one or a folder's, to a base; does nothing without one.
void add_starting_adapter(LoadedModel& base, const Config& config);

/// What is in the weights of an adapter's folder: "sha256:..."; empty where there are none.
std::string adapter_fingerprint(const std::filesystem::path& adapter);

/// A checksum of all weights and of config.json: whether a base model is the one that an adapter was trained on.
uint32_t base_checksum(const ModelWeights& model);

/// How a run computes its networks.
ExecutionOptions execution_options(const Config& config, bool adapter_apart = false);

/// The dropout of the next update. The updates of both phases count, so that no two have the same noise.
Dropout next_dropout(const Config& config, const TrainState& state);

/// Where a model's folder has a manifest (a checkpoint, a reference), every file must be what the manifest says.
void verify_checksums(const std::filesystem::path& folder);

/// load_model of an undamaged folder; a checkpoint gives its float32 weights, whatever their type in the folder.
LoadedModel load_verified_model(const std::string& name, at::Device device);

}  // namespace keel
