#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "keel/core/json.h"
#include "keel/record/tokens/token_row.h"

namespace keel {

/// Refuses (exit code 2), with the way out, where this build cannot write them: they are Parquet, by Arrow.
void require_token_files();

/// Files of records are written over and removed by their names: behind a link they may be another run's.
void require_no_link(const std::filesystem::path& folder);

/// The recorded tokens of a step, step-NNNNNNNN.parquet, compressed. The file appears whole or not at all.
class TokenFile {
 public:
  /// In a folder that is made where it is missing.
  TokenFile(const std::filesystem::path& folder, int64_t step);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  /// Writes the rows, as a part of the file that can be read alone; few rows at a time make it larger.
  void add(std::span<const TokenRow> rows);
  /// `facts` hold for all rows: an object in the file's own metadata, by the key keel.step.
  void commit(const Json& facts);

  /// The name of a step's file; the step of such a name, also of a half-written one's, or -1.
  static std::string name(int64_t step);
  static int64_t parse_step(std::string name);

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace keel
