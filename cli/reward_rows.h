#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/core/prompt.h"
#include "keel/core/tensor/rollout.h"
#include "keel/data/schema.h"

namespace keel::cli {

/// A completion to be judged, with its prompt.
struct RewardRow {
  Prompt prompt;
  std::string completion;
  std::optional<std::vector<int32_t>> tokens;
  bool stopped = true;  // it was not cut off
};

/// Reads rows of completions as training reads rows of prompts: by the schemas of docs/data.md and the keys of section
/// `data`. A row may be without a prompt.
class RewardRows {
 public:
  /// A file's columns are known by its first row, and every row has those of all; of anything else (standard input)
  /// each row stands for itself.
  RewardRows(const std::string& path, DataOptions keys);

  /// An Error (kBadInput) that names the place of a row that cannot be read.
  RewardRow read(const Json& row, uint64_t id, const std::string& place) const;

  /// "read as: verl; ..."; empty where the rows are {prompt, completion, answer, source}.
  const std::string& note() const { return note_; }

 private:
  Columns columns_of(const Json& row, const std::string& place) const;

  DataOptions keys_;
  std::optional<Columns> columns_;
  ColumnNames names_;
  std::string note_;
};

}  // namespace keel::cli
