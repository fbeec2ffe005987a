#pragma once

// The safetensors format: eight bytes of header length, a JSON header, the tensor data. Files are untrusted: every
// number is checked against the file size before memory is allocated for it.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keel/core/files/file.h"
#include "keel/core/tensor/tensor.h"
#include "keel/model/formats/weight_dtypes.h"

namespace keel {

/// One tensor as the header describes it; its bytes are [begin, end) of the data part.
struct TensorInfo {
  std::string name;
  at::ScalarType dtype = at::ScalarType::Float;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

/// An open safetensors file with a validated header.
class SafetensorsFile {
 public:
  /// Reads and validates the header. Fails (kBadInput) with the file and the fault.
  static SafetensorsFile open(const std::filesystem::path& path);

  /// All tensors, in the order of their bytes.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// The header entry of a tensor, or null.
  const TensorInfo* find(std::string_view name) const;
  /// Reads one tensor into new CPU memory, with its dtype in the file.
  Tensor read(std::string_view name) const;
  /// Reads one tensor as float32, converting it in small pieces.
  Tensor read_float32(std::string_view name) const;

 private:
  explicit SafetensorsFile(InputFile file) : file_(std::move(file)) {}
  const TensorInfo& at(std::string_view name) const;
  void index_names();
  void check_layout() const;

  InputFile file_;
  uint64_t data_begin_ = 0;
  std::vector<TensorInfo> tensors_;
  std::vector<uint32_t> by_name_;  // indices into tensors_, sorted by name
  std::map<std::string, std::string> metadata_;
};

/// Writes a safetensors file atomically and durably. The bytes depend only on the arguments: tensors are ordered by
/// element size, largest first (for alignment), then by name. Tensors on any device are copied to the CPU one at a time
/// and converted to `dtypes`, if given. Python libraries expect the metadata {"format": "pt"}.
void write_safetensors(const std::filesystem::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::optional<WeightDtypes>& dtypes = {});

}  // namespace keel
