#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "keel/core/json.h"
#include "keel/record/tokens/token_row.h"

namespace keel {

/// Throws an Error (exit code 2) if this build has no Arrow, which writes the Parquet files.
void require_token_files();

/// Throws an Error if the folder is a link, because the files at its target may belong to another run.
void require_no_link(const std::filesystem::path& folder);

/// Writes the recorded tokens of a step to step-NNNNNNNN.parquet, compressed and atomically.
class TokenFile {
 public:
  /// Creates the folder if it is missing.
  TokenFile(const std::filesystem::path& folder, int64_t step);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  /// Writes the rows as one row group. Small row groups make the file larger.
  void add(std::span<const TokenRow> rows);
  /// Completes the file. `metadata` is stored in the file metadata under the key keel.step.
  void commit(const Json& metadata);

  /// The file name of a step, and the step of such a name (also of a partial file) or -1.
  static std::string name(int64_t step);
  static int64_t parse_step(std::string name);

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace keel
