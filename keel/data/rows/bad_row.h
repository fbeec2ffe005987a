#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace keel {

/// A row that gives no prompt, with its place and the reason. Where data.bad_rows is "skip" it is counted and passed
/// over; else it ends the run.
class BadRow : public std::runtime_error {
 public:
  /// `rows` is above 1 where damage takes many rows at once: a page of a Parquet file, for instance.
  BadRow(const std::string& place, const std::string& reason, uint64_t rows = 1)
      : std::runtime_error(place + ": " + reason), rows_(rows) {}
  uint64_t rows() const { return rows_; }

 private:
  uint64_t rows_;
};

}  // namespace keel
