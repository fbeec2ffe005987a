#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "keel/core/files/file.h"

namespace keel {

/// A file that must not change between reads. Compares what is read with checksums of the first reading: changed
/// content is an Error (kBadInput), a changed modification time alone is not.
class UnchangingFile {
 public:
  /// Reads all of it once and passes it to `visit` in pieces.
  UnchangingFile(const std::filesystem::path& path, const std::function<void(std::string_view piece)>& visit);

  uint64_t size() const { return file_.size(); }
  void read_at(uint64_t offset, std::span<std::byte> to) const;

 private:
  InputFile file_;
  std::vector<uint32_t> checksums_;  // one per piece
};

}  // namespace keel
