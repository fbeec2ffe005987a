#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "keel/model/formats/gguf/gguf_quants.h"
#include "keel/model/loaded_model.h"

namespace keel {

/// Writes a model with its tokenizer and chat template as a GGUF file for llama.cpp. Matrices are in `format` (F32,
/// F16, BF16, Q8_0; F16 if the row length is not a multiple of the block size), norms and biases in F32. Fails
/// (kBadInput, with a message that starts with `location`) if GGUF cannot represent the model.
void write_gguf(const LoadedModel& loaded, const std::filesystem::path& path, const GgufFormat& format,
                const std::string& name, const std::string& location);

/// The number of elements in matrices, and how many of them are in F16 because `format` does not divide their rows.
struct GgufMatrices {
  int64_t elements = 0, in_f16 = 0;

  std::string_view main_format(const GgufFormat& format) const { return 2 * in_f16 > elements ? "F16" : format.name; }
};
GgufMatrices gguf_matrices(const ModelConfig& config, const GgufFormat& format, const std::string& location);

/// The stop tokens that do not fit into the three EOS keys of the file.
std::vector<std::string> stop_tokens_lost_in_gguf(const LoadedModel& loaded);

/// The context length in the file: that of the model, or the sliding window if GGUF does not support it for this
/// architecture. Within the window the results are unchanged.
int64_t gguf_context_length(const ModelConfig& config, const std::string& location);

}  // namespace keel
