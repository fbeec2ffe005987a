#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "keel/model/formats/gguf/gguf_quants.h"
#include "keel/model/loaded_model.h"

namespace keel {

/// Writes a model with its tokenizer and chat template as a GGUF file, as llama.cpp's programs read them. Matrices are
/// in `format` (F32, F16, BF16, Q8_0; F16 where rows are no whole blocks), norms and biases in F32. What such a file
/// cannot say of the model is an Error (kBadInput) that begins with `place` and names it.
void write_gguf(const LoadedModel& loaded, const std::filesystem::path& path, const GgufFormat& format,
                const std::string& name, const std::string& place);

/// How many numbers the matrices of the file have, and how many of them are in F16 since their rows are no whole blocks
/// of `format`.
struct GgufMatrices {
  int64_t numbers = 0, in_f16 = 0;

  /// The name of what most of them are in.
  std::string_view mostly(const GgufFormat& format) const { return 2 * in_f16 > numbers ? "F16" : format.name; }
};
GgufMatrices gguf_matrices(const ModelConfig& config, const GgufFormat& format, const std::string& place);

/// The texts of tokens that end a completion of the model and that the file has no place for: it has three.
std::vector<std::string> stop_tokens_lost_in_gguf(const LoadedModel& loaded);

/// The longest context that the file says: the model's, or the window of its sliding layers where files of its
/// architecture know none. Up to there the window changes nothing.
int64_t gguf_context_length(const ModelConfig& config, const std::string& place);

}  // namespace keel
