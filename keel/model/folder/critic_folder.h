#pragma once

#include <filesystem>
#include <optional>

#include "keel/model/network/critic.h"

namespace keel {

/// Writes a critic beside its policy, in float32: FOLDER/critic.safetensors where it shares the policy's body, else
/// FOLDER/critic, which transformers reads as a token classifier with one label (AutoModelForTokenClassification).
void write_critic(const std::filesystem::path& folder, const Critic& critic);

/// The critic that lies in a folder, if there is one, for a policy of this hidden size.
std::optional<Critic> read_critic(const std::filesystem::path& folder, int64_t hidden_size, at::Device device);

}  // namespace keel
