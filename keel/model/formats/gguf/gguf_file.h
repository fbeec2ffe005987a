#pragma once

// GGUF files: one file with a model's numbers, often quantised, its shape and its tokenizer. What is in the front part
// is in gguf_header.h, what a model makes of it in gguf_model.h.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/files/file.h"
#include "keel/core/tensor/tensor.h"
#include "keel/model/formats/gguf/gguf_header.h"

namespace keel {

/// An open GGUF file whose front part has been checked in full.
class GgufFile {
 public:
  /// Reads and checks the front part; anything out of order is an Error (kBadInput) that names the file and the fault.
  static GgufFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  uint64_t bytes() const { return file_.size(); }
  uint32_t version() const { return header_.version; }
  uint64_t alignment() const { return header_.alignment; }
  const GgufMetadata& metadata() const { return header_.metadata; }
  /// All tensors, in the order of the file.
  const std::vector<GgufTensor>& tensors() const { return header_.tensors; }
  /// The tensor with this name, or nullptr.
  const GgufTensor* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }

  /// Reads one tensor into fresh CPU memory as float32, rows first.
  Tensor read(std::string_view name) const;
  /// Reads one tensor as float32 into memory that has room for exactly its elements. Besides that memory it takes a
  /// fixed small buffer, so that reading a whole model needs little more than its weights.
  void read_into(std::string_view name, std::span<float> to) const;

 private:
  explicit GgufFile(InputFile file);
  const GgufTensor& at(std::string_view name) const;

  InputFile file_;
  GgufHeader header_;
  std::vector<uint32_t> by_name_;  // places in tensors(), sorted by name
};

}  // namespace keel
