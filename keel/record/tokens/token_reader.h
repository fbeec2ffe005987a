#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/record/tokens/token_row.h"

namespace keel {

/// Returns the token record files of a run, sorted by step, without partial files.
std::vector<std::filesystem::path> token_files(const std::filesystem::path& run);

/// Returns an error message for a run without token records.
std::string no_token_files(const std::filesystem::path& run);

/// Reads the recorded tokens of a step in batches. Throws an Error (exit code 3) if the file is truncated, damaged,
/// partial, of another format, or lacks a column.
class TokenReader {
 public:
  /// Reads these columns, or all. Other members keep their defaults.
  explicit TokenReader(const std::filesystem::path& file, const std::vector<std::string>& columns = {});
  ~TokenReader();
  TokenReader(TokenReader&&) noexcept;
  TokenReader& operator=(TokenReader&&) noexcept;

  /// The object keel.step of the file metadata.
  const Json& metadata() const;
  int64_t rows() const;

  /// Returns the next rows; empty at the end.
  std::vector<TokenRow> next();

 private:
  class Source;
  std::unique_ptr<Source> source_;
};

}  // namespace keel
