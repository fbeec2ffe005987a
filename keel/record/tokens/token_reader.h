#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/record/tokens/token_row.h"

namespace keel {

/// The files of a run's token records, in the order of their steps; none where nothing is recorded. One that is being
/// written is not among them.
std::vector<std::filesystem::path> token_files(const std::filesystem::path& run);

/// Why a run has no such files, and how to get some.
std::string no_token_files(const std::filesystem::path& run);

/// The recorded tokens of a step, some thousand rows at a time. Refuses (exit code 3) a file that is cut off, damaged,
/// being written, of another format, or without a column that the format has.
class TokenReader {
 public:
  /// With these columns (by their names in the file), or with all; other members stay as a new row has them.
  explicit TokenReader(const std::filesystem::path& file, const std::vector<std::string>& columns = {});
  ~TokenReader();
  TokenReader(TokenReader&&) noexcept;
  TokenReader& operator=(TokenReader&&) noexcept;

  /// What holds for all rows: the object keel.step of the file's metadata.
  const Json& facts() const;
  int64_t rows() const;

  /// The next rows; none at the end.
  std::vector<TokenRow> next();

 private:
  class Source;
  std::unique_ptr<Source> source_;
};

}  // namespace keel
