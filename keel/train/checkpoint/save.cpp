#include "keel/train/checkpoint/save.h"

#include "keel/core/files/failed_call.h"
#include "keel/core/interrupt.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/record/own_files.h"
#include "keel/record/report/report.h"

namespace keel {
namespace {

/// Someone may have tidied up while the run went on.
void keep_reference(const Save& save, std::vector<std::string>& warnings) {
  const LoadedModel& policy = save.checkpoint.policy;
  const std::filesystem::path folder = save.run / kReferenceFolder;
  const bool own = is_own_reference(folder, save.checkpoint.run);
  const std::optional<std::string> damage = find_reference_damage(folder, policy);
  if (own && !damage) return;
  if (own)
    warnings.push_back(folder.string() + " was damaged while the run went on (" + *damage + "); it is written again");
  if (const auto moved = write_reference(save.run, *save.reference, policy, save.checkpoint.run))
    warnings.push_back(*moved);
}

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

std::optional<std::string> write_reference(const std::filesystem::path& run, const CausalLm& reference,
                                           const LoadedModel& policy, const std::string& id) {
  const std::filesystem::path folder = run / kReferenceFolder;
  const std::optional<std::filesystem::path> aside = save_reference(folder, reference, policy, id);
  return aside ? std::optional(moved_sentence(folder, *aside)) : std::nullopt;
}

Saved write_save(const Save& save) {
  Stopwatch watch(at::kCPU);
  const std::filesystem::path checkpoints = save.run / "checkpoints";
  Saved saved;
  if (save.reference != nullptr) keep_reference(save, saved.warnings);
  saved.checkpoint = save_checkpoint(checkpoints, save.checkpoint, save.keep, save.first, &saved.warnings);
  set_resumable();
  saved.foreign = foreign_among(checkpoints, save.checkpoint.run);
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
