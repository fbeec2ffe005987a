#pragma once

#include <filesystem>
#include <optional>

#include "keel/model/network/critic.h"

namespace keel {

/// Writes a critic in float32: to FOLDER/critic.safetensors if it shares the body of the policy, else to FOLDER/critic,
/// which transformers loads as a token classifier with one label (AutoModelForTokenClassification).
void write_critic(const std::filesystem::path& folder, const Critic& critic);

/// Reads the critic of a folder, if any, for a policy with this hidden size.
std::optional<Critic> read_critic(const std::filesystem::path& folder, int64_t hidden_size, at::Device device);

}  // namespace keel
