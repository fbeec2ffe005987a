#pragma once

// The number formats of GGUF tensors: floats, and quantised blocks of small integers with a scale.
// Layouts: the public description of the format, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and the
// block structures it refers to (ggml-common.h).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace keel {

/// A number format. The row length of a tensor is a multiple of block_elements.
struct GgufFormat {
  uint32_t id = 0;  // the id in files
  std::string_view name;
  uint32_t block_elements = 1, block_bytes = 4;
  /// Converts `blocks` blocks to floats; the bytes can be unaligned.
  void (*to_float)(const std::byte* from, size_t blocks, float* to) = nullptr;
  /// Converts floats to blocks, rounding to nearest; nullptr if writing is not supported.
  void (*from_float)(const float* from, size_t blocks, std::byte* to) = nullptr;
  float max = 0;  // the maximum value for from_float
};

/// The format with this id or name, or nullptr if it is not supported.
const GgufFormat* find_gguf_format(uint32_t id);
const GgufFormat* find_gguf_format(std::string_view name);

/// The name of the format with this id, also if it is not supported ("type 99" for unknown ids).
std::string gguf_format_name(uint32_t id);

/// All supported formats: "F32 F16 ...".
std::string known_gguf_formats();

}  // namespace keel
