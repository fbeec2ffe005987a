#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/core/prompt.h"
#include "keel/core/tensor/rollout.h"
#include "keel/data/schema.h"

namespace keel::cli {

/// A completion to score, with its prompt.
struct RewardRow {
  Prompt prompt;
  std::string completion;
  std::optional<std::vector<int32_t>> tokens;
  bool stopped = true;  // false: truncated
};

/// Reads rows of completions with the schemas of docs/data.md and the keys of section `data`, as training reads
/// prompts. A row needs no prompt.
class RewardRows {
 public:
  /// Recognises the columns of a file by its first row, and of standard input by each row. A row of a file gets the
  /// columns of all rows.
  RewardRows(const std::string& path, DataOptions keys);

  /// Throws an Error (kBadInput) with the line of an invalid row.
  RewardRow read(const Json& row, uint64_t id, const std::string& location) const;

  /// "read as: verl; ..."; empty for rows {prompt, completion, answer, source}.
  const std::string& note() const { return note_; }

 private:
  Columns find_columns(const Json& row, const std::string& location) const;

  DataOptions keys_;
  std::optional<Columns> columns_;
  ColumnNames names_;
  std::string note_;
};

}  // namespace keel::cli
