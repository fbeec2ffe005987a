#pragma once

// The header of a GGUF file (versions 2 and 3): metadata keys, then the names and offsets of tensors. Files are
// untrusted: overflows and alignments are checked, and every size is checked against the file size before memory is
// allocated. It does not use LibTorch.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/files/file.h"
#include "keel/core/json.h"
#include "keel/model/formats/gguf/gguf_quants.h"

namespace keel {

/// The metadata. The JSON tree has one member per key, in the order of the file. 32-bit floats become the shortest
/// decimal with the same float value (0.00001, not 0.00000999999974...).
class GgufMetadata {
 public:
  GgufMetadata() = default;
  GgufMetadata(std::filesystem::path path, Json tree) : path_(std::move(path)), tree_(std::move(tree)) {}

  const Json& tree() const { return tree_; }
  const std::filesystem::path& path() const { return path_; }
  /// The value of a key, or nullptr.
  const Json* find(std::string_view key) const;

  // Returns nullopt if the key is missing. Fails (kBadInput) if its value has another type.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;  // finite
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;

  // Also fails if the key is missing.
  int64_t required_integer(std::string_view key) const;
  double required_number(std::string_view key) const;
  std::string required_text(std::string_view key) const;

 private:
  [[noreturn]] void reject_type(std::string_view key, const Json& got, const char* expected) const;
  [[noreturn]] void reject_missing(std::string_view key, const char* expected) const;

  std::filesystem::path path_;
  Json tree_ = Json::object();
};

/// The description of a tensor in the file.
struct GgufTensor {
  std::string name;
  const GgufFormat* format = nullptr;
  std::vector<int64_t> shape;   // as in PyTorch; the file stores the dimensions in reverse
  uint64_t begin = 0, end = 0;  // its bytes in the file

  int64_t elements() const;
};

struct GgufHeader {
  uint32_t version = 0;
  uint64_t alignment = 32, data_begin = 0;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in the order of the file
};

/// Reads and validates the header. Fails (kBadInput) with the file, the position and the fault.
GgufHeader read_gguf_header(const InputFile& file);

}  // namespace keel
