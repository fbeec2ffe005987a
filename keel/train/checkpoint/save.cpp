#include "keel/train/checkpoint/save.h"

#include "keel/core/files/failed_call.h"
#include "keel/core/interrupt.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/record/report/report.h"

namespace keel {
namespace {

/// What is wrong with its rows keeps a run from its report, and from nothing else. A disk that is full or cannot be
/// read is an error all the same.
std::optional<std::string> refresh_report(const std::filesystem::path& run) {
  try {
    write_report_without_tokens(run);
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code() == ExitCode::kHealthGuard || dynamic_cast<const ReadFailure*>(&error) != nullptr) throw;
    return error.what();
  }
}

}  // namespace

Saved write_save(const Save& save) {
  Stopwatch watch(at::kCPU);
  Saved saved{.checkpoint = save_checkpoint(save.run / "checkpoints", save.checkpoint, save.keep, save.first)};
  set_resumable();
  if (save.report) saved.report_failure = refresh_report(save.run);
  saved.seconds = watch.lap();
  return saved;
}

bool has_room_for_copy(int64_t bytes, int64_t needed_again, int64_t available) {
  return bytes + needed_again <= available / 10 * 9;
}

bool copy_to_host(Checkpoint& checkpoint) {
  try {
    checkpoint = copied_to_host(checkpoint);
    return true;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    return false;
  }
}

}  // namespace keel
