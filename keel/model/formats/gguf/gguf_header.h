#pragma once

// The front part of a GGUF file (versions 2 and 3): keys with values, then what tensors there are and where. Files come
// from strangers, so nothing is believed: sums, products and alignments are checked, and every size is compared with
// the real file size before memory is taken for it. No LibTorch in here.

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

/// The keys and values. The tree has one member per key, in the file's order; 32-bit floats are the shortest decimal
/// that gives the same float (0.00001, not 0.00000999999974...).
class GgufMetadata {
 public:
  GgufMetadata() = default;
  GgufMetadata(std::filesystem::path path, Json tree) : path_(std::move(path)), tree_(std::move(tree)) {}

  const Json& tree() const { return tree_; }
  const std::filesystem::path& path() const { return path_; }
  /// The value of a key, or nullptr.
  const Json* find(std::string_view key) const;

  // Nothing where the key is missing; an Error (kBadInput) where its value is of another kind.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;  // finite
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;

  // An Error where the key is missing, too.
  int64_t required_integer(std::string_view key) const;
  double required_number(std::string_view key) const;
  std::string required_text(std::string_view key) const;

 private:
  [[noreturn]] void wrong_kind(std::string_view key, const Json& got, const char* wanted) const;
  [[noreturn]] void missing(std::string_view key, const char* wanted) const;

  std::filesystem::path path_;
  Json tree_ = Json::object();
};

/// One tensor as the file describes it.
struct GgufTensor {
  std::string name;
  const GgufFormat* format = nullptr;
  std::vector<int64_t> shape;   // rows first, as in torch; the file has the dimensions the other way round
  uint64_t begin = 0, end = 0;  // its bytes in the file

  int64_t elements() const;
};

struct GgufHeader {
  uint32_t version = 0;
  uint64_t alignment = 32, data_begin = 0;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in the order of the file
};

/// Reads and checks everything before the tensors' bytes; anything out of order is an Error (kBadInput) that names the
/// file, the place and the fault.
GgufHeader read_gguf_header(const InputFile& file);

}  // namespace keel
