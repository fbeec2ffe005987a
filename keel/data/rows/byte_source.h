#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace keel {

/// What a data file is, by its first bytes.
enum class DataFormat { kJsonLines, kGzip, kZstd, kParquet };

/// Also an Error where the name promises another format than the bytes hold.
DataFormat data_format(const std::filesystem::path& path);

/// The bytes of a compressed file, decompressed, from the first to the last.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills the front of `to` and returns how much; 0 is the end, or damage.
  virtual size_t read(std::span<char> to) = 0;
  /// Why no more can be read; empty where the end was the end.
  const std::string& damage() const { return damage_; }

 protected:
  std::string damage_;
};

/// For kGzip and kZstd.
std::unique_ptr<ByteSource> open_compressed(const std::filesystem::path& path, DataFormat format);

/// Whether this build has the library the format needs: zlib, libzstd, Arrow.
bool can_read(DataFormat format);

/// An Error with the way out where it has not.
void require_format(const std::filesystem::path& path, DataFormat format);

}  // namespace keel
