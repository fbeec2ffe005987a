#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "keel/train/checkpoint/checkpoint.h"

namespace keel {

/// One save of a run. With a checkpoint that is copied_to_host() it can be written on a thread of its own.
struct Save {
  Checkpoint checkpoint;
  std::filesystem::path run;  // its folder
  int64_t keep = 1;           // newest checkpoints
  bool first = false;         // of the run
  bool report = false;        // report.html is to say how far the run is
};

/// What there is to know of it afterwards.
struct Saved {
  std::filesystem::path checkpoint;
  double seconds = 0;                         // that the write took
  std::optional<std::string> report_failure = {};  // rows that somebody spoiled, say
};

/// Returns when all is on the disk.
Saved write_save(const Save& save);

/// Whether a copy of so many bytes fits into the memory that is available now, beside what the process may need again
/// (the most that it has held less what it holds), with some to spare.
bool has_room_for_copy(int64_t bytes, int64_t needed_again, int64_t available);

/// Puts what is to be saved into host memory that training does not change. False, with everything as it was, where
/// there is no memory for it.
bool copy_to_host(Checkpoint& checkpoint);

}  // namespace keel
