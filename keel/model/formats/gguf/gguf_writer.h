#pragma once

// Writes GGUF files (version 3, little-endian): keys with values first, then what tensors there are, then their bytes.

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
  // In the order in which the file has them.
  void add_text(std::string_view key, std::string_view value);
  void add_count(std::string_view key, int64_t value);  // fits 32 bits
  void add_number(std::string_view key, double value);  // as float32
  void add_flag(std::string_view key, bool value);
  void add_texts(std::string_view key, std::span<const std::string> values);
  void add_numbers(std::string_view key, std::span<const double> values);  // as float32
  void add_types(std::string_view key, std::span<const int> values);

  /// `values` gives the tensor as float32 on the CPU, rows first and as the file is to have them, when its turn comes.
  void add_tensor(std::string name, std::vector<int64_t> shape, const GgufFormat& format,
                  std::function<Tensor()> values);

  /// The file appears whole or not at all, and is not begun where the disk has no room for it.
  void write(const std::filesystem::path& path) const;

 private:
  struct Outgoing {
    std::string name;
    std::vector<int64_t> shape;
    const GgufFormat* format;
    std::function<Tensor()> values;
    uint64_t bytes;
  };
  void add_key(std::string_view key, uint32_t type);

  std::string keys_;
  uint64_t key_count_ = 0;
  std::vector<Outgoing> tensors_;
};

}  // namespace keel
