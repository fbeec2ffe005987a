#pragma once

// The number formats of GGUF tensors: plain floats, and blocks of small integers with a scale. Raw pointers only.
// Layouts: the public description of the format, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and the
// block structures it refers to (ggml-common.h).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace keel {

/// One number format; a tensor's rows are whole blocks of it.
struct GgufFormat {
  uint32_t id = 0;  // the format's number in a file
  std::string_view name;
  uint32_t block_elements = 1, block_bytes = 4;
  /// Turns `blocks` blocks into `blocks * block_elements` numbers; the bytes need no alignment.
  void (*to_float)(const std::byte* from, size_t blocks, float* to) = nullptr;
  /// The way back, rounded to nearest; nullptr where the format is only read.
  void (*from_float)(const float* from, size_t blocks, std::byte* to) = nullptr;
  float largest = 0;  // the largest number that from_float can hold
};

/// The format with this number, or nullptr where it is not read.
const GgufFormat* find_gguf_format(uint32_t id);
const GgufFormat* find_gguf_format(std::string_view name);

/// What the format with this number is called, also where it is not read ("type 99" where even the number is unknown).
std::string gguf_format_name(uint32_t id);

/// "F32 F16 ...": all formats that are read.
std::string known_gguf_formats();

}  // namespace keel
