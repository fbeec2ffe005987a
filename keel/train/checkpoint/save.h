#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "keel/train/checkpoint/checkpoint.h"

namespace keel {

/// One save of a run: its reference, where it has one, and the checkpoint. With a checkpoint that is copied_to_host()
/// it can be written on a thread of its own.
struct Save {
  Checkpoint checkpoint;
  std::filesystem::path run;            // its folder
  int64_t keep = 1;                     // newest checkpoints
  bool first = false;                   // of the run
  bool report = false;                  // report.html is to say how far the run is
  const CausalLm* reference = nullptr;  // which nothing changes, and which outlives the save; null: none
};

/// What there is to know of it afterwards.
struct Saved {
  std::filesystem::path checkpoint;
  double seconds = 0;                          // that the write took
  std::vector<std::string> warnings = {};      // about what was in the way, or damaged
  std::optional<std::string> report_failure;   // rows that somebody spoiled, say
  std::vector<std::filesystem::path> foreign;  // among the checkpoints, and not the run's
};

/// Returns when all is on the disk, with the reference first: a checkpoint without it could not be resumed from.
Saved write_save(const Save& save);

/// Writes RUN/reference. The sentence to warn with where something else had the name, which is moved aside.
std::optional<std::string> write_reference(const std::filesystem::path& run, const CausalLm& reference,
                                           const LoadedModel& policy, const std::string& id);

/// Whether a copy of so many bytes fits into the memory that is available now, beside what the process may need again
/// (the most that it has held less what it holds), with some to spare.
bool has_room_for_copy(int64_t bytes, int64_t needed_again, int64_t available);

/// Puts what is to be saved into host memory that training does not change. False, with everything as it was, where
/// there is no memory for it.
bool copy_to_host(Checkpoint& checkpoint);

}  // namespace keel
