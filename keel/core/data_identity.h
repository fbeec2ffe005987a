#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace keel {

/// Identifies the rows that a phase reads from files.
struct DataIdentity {
  std::optional<std::string> train = {}, eval = {};  // fingerprints of the files' bytes; empty without files
  uint64_t rows = 0;                                 // in the training files
};

}  // namespace keel
