#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace keel {

/// An unusable row, with its place and the reason. With data.bad_rows=skip it is counted and skipped; else it ends the
/// run.
class BadRow : public std::runtime_error {
 public:
  /// `rows` exceeds 1 if damage affects several rows, for instance a page of a Parquet file.
  BadRow(const std::string& place, const std::string& reason, uint64_t rows = 1)
      : std::runtime_error(place + ": " + reason), rows_(rows) {}
  uint64_t rows() const { return rows_; }

 private:
  uint64_t rows_;
};

}  // namespace keel
