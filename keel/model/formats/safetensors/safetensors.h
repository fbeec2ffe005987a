#pragma once

// The safetensors format: eight bytes of header length, a JSON header, the tensors' bytes. Files come from strangers,
// so the reader believes nothing: every number is compared with the real file size before memory is taken for it.

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

/// An open safetensors file whose header has been checked in full.
class SafetensorsFile {
 public:
  /// Reads and checks the header; anything out of order is an Error (kBadInput) that names the file and the fault.
  static SafetensorsFile open(const std::filesystem::path& path);

  /// All tensors, in the order of their bytes.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// What the header says of a tensor; null where there is none.
  const TensorInfo* find(std::string_view name) const;
  /// Reads one tensor into fresh CPU memory, in the dtype it has in the file.
  Tensor read(std::string_view name) const;
  /// The same as float32; only a small piece ever exists in the file's own type.
  Tensor read_float32(std::string_view name) const;

 private:
  explicit SafetensorsFile(InputFile file) : file_(std::move(file)) {}
  const TensorInfo& found(std::string_view name) const;
  void index_names();
  void check_layout() const;

  InputFile file_;
  uint64_t data_begin_ = 0;
  std::vector<TensorInfo> tensors_;
  std::vector<uint32_t> by_name_;  // places in tensors_, sorted by name
  std::map<std::string, std::string> metadata_;
};

/// Writes a safetensors file, durably and whole or not at all. The bytes depend only on the arguments' content: tensors
/// are laid out by element size, largest first (so that each is aligned), then by name. Tensors may be on any device
/// and need not be contiguous; they are copied to the CPU one at a time, and written as `dtypes` says where it is
/// given. Libraries in Python expect metadata {"format": "pt"}.
void write_safetensors(const std::filesystem::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::optional<WeightDtypes>& dtypes = {});

}  // namespace keel
