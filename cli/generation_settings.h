#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/ops/sampler.h"

namespace keel::cli {

/// How to sample, as far as someone said it.
struct GenerationFlags {
  std::optional<double> temperature = {}, top_p = {}, min_p = {};
  std::optional<int64_t> top_k = {}, max_new_tokens = {};
  std::optional<std::vector<std::string>> stop_strings = {};
};

struct GenerationSettings {
  double temperature = 1;
  Truncation truncation = {};
  std::vector<std::string> stop_strings = {};
  std::optional<int64_t> max_new_tokens = {};  // nothing: nobody said
  std::optional<int64_t> max_length = {};      // of prompt and completion together, where max_new_tokens is not said
  std::vector<std::string> notes = {};         // what was taken from the file, and what of it cannot be followed
};

/// The flags, then what a model's generation_config.json says, then plain sampling. Only keys that stand in the file
/// count, not what another program takes for them where they do not. A value that makes no sense is an Error
/// (kBadInput), unless a flag replaces it.
GenerationSettings generation_settings(const Json& file, const GenerationFlags& flags);

/// "temperature 0.7": all that such a file asks for that changes which tokens are drawn, but for the tokens that end
/// it.
std::vector<std::string> sampling_asked_for(const Json& file);

}  // namespace keel::cli
