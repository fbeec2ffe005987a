#pragma once

// A GGUF file holds the weights of a model, often quantised, its shape and its tokenizer. gguf_header.h parses the
// header, and gguf_model.h interprets it as a model.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/files/file.h"
#include "keel/core/tensor/tensor.h"
#include "keel/model/formats/gguf/gguf_header.h"

namespace keel {

/// An open GGUF file with a validated header.
class GgufFile {
 public:
  /// Reads and validates the header. Fails (kBadInput) with the file and the fault.
  static GgufFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  uint64_t bytes() const { return file_.size(); }
  uint32_t version() const { return header_.version; }
  uint64_t alignment() const { return header_.alignment; }
  const GgufMetadata& metadata() const { return header_.metadata; }
  /// All tensors, in the order of the file.
  const std::vector<GgufTensor>& tensors() const { return header_.tensors; }
  const GgufTensor* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }

  /// Reads one tensor as float32 into new CPU memory.
  Tensor read(std::string_view name) const;
  /// Reads one tensor as float32 into `to`, which must have exactly its size. It needs only a small fixed buffer.
  void read_into(std::string_view name, std::span<float> to) const;

 private:
  explicit GgufFile(InputFile file);
  const GgufTensor& at(std::string_view name) const;

  InputFile file_;
  GgufHeader header_;
  std::vector<uint32_t> by_name_;  // indices into tensors(), sorted by name
};

}  // namespace keel
