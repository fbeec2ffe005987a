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

/// A file that is read again and again and must stay as it was. What is read is compared with checksums of the first
/// reading: rows that were overwritten in place are an Error (kBadInput), whatever the file's time and size say, and a
/// file that was only touched is none.
class UnchangingFile {
 public:
  /// Reads all of it once and gives it to `visit`, piece by piece.
  UnchangingFile(const std::filesystem::path& path, const std::function<void(std::string_view piece)>& visit);

  uint64_t size() const { return file_.size(); }
  void read_at(uint64_t offset, std::span<std::byte> to) const;

 private:
  InputFile file_;
  std::vector<uint32_t> checksums_;  // one per piece
};

}  // namespace keel
