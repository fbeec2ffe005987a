#pragma once

// Writes GGUF files (version 3, little-endian): metadata keys, then tensor descriptions, then tensor data.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/model/formats/gguf/gguf_quants.h"

namespace keel {

class GgufWriter {
 public:
  // The file has the keys and tensors in the order of these calls.
  void add_text(std::string_view key, std::string_view value);
  void add_count(std::string_view key, int64_t value);  // must fit 32 bits
  void add_number(std::string_view key, double value);  // as float32
  void add_flag(std::string_view key, bool value);
  void add_texts(std::string_view key, std::span<const std::string> values);
  void add_numbers(std::string_view key, std::span<const double> values);  // as float32
  void add_types(std::string_view key, std::span<const int> values);

  /// `values` is called when the tensor is written. It returns a contiguous float32 CPU tensor.
  void add_tensor(std::string name, std::vector<int64_t> shape, const GgufFormat& format,
                  std::function<Tensor()> values);

  /// Writes the file atomically. Fails at once if the disk does not have enough space.
  void write(const std::filesystem::path& path) const;

 private:
  struct PendingTensor {
    std::string name;
    std::vector<int64_t> shape;
    const GgufFormat* format;
    std::function<Tensor()> values;
    uint64_t bytes;
  };
  void add_key(std::string_view key, uint32_t type);

  std::string keys_;
  uint64_t key_count_ = 0;
  std::vector<PendingTensor> tensors_;
};

}  // namespace keel
