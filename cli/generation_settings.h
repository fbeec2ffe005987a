#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/ops/sampler.h"

namespace keel::cli {

/// The sampling options that were set on the command line.
struct GenerationFlags {
  std::optional<double> temperature = {}, top_p = {}, min_p = {};
  std::optional<int64_t> top_k = {}, max_new_tokens = {};
  std::optional<std::vector<std::string>> stop_strings = {};
};

struct GenerationSettings {
  double temperature = 1;
  SamplingFilter filter = {};
  std::vector<std::string> stop_strings = {};
  std::optional<int64_t> max_new_tokens = {};  // unset: resolve_max_new_tokens() decides
  std::optional<int64_t> max_length = {};      // prompt and completion together; only if max_new_tokens is unset
  std::vector<std::string> notes = {};         // what was read from the file, and which of its keys are unsupported
};

/// Combines the flags, the keys of a model's generation_config.json and the defaults, in this order of priority.
/// transformers' defaults for missing keys do not apply. Throws an Error (kBadInput) for an invalid value of the file,
/// unless a flag replaces it.
GenerationSettings generation_settings(const Json& file, const GenerationFlags& flags);

/// "temperature 0.7", ...: the keys of the file that change sampling, without the stop tokens.
std::vector<std::string> describe_file_sampling(const Json& file);

}  // namespace keel::cli
