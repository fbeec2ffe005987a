#include "keel/train/checkpoint_writer.h"

#include <algorithm>
#include <memory>

#include "keel/core/files/failed_call.h"
#include "keel/core/interrupt.h"
#include "keel/core/shell_words.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/record/report/report.h"

namespace keel {
namespace {

constexpr std::chrono::minutes kReportInterval(1);  // a report of a long run takes 1 to 2 seconds

/// Writes the report. Returns an error message for damaged rows, which do not stop a run. A full or unreadable disk is
/// an error.
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

void CheckpointWriter::save(const std::function<Checkpoint()>& collect, SaveMode mode) {
  wait();
  Checkpoint checkpoint = collect();
  folder_.write([&] {
    checkpoint.lines = folder_.sync();
    last_state_ = to_json(checkpoint.state);
    const bool report_due = std::chrono::steady_clock::now() - reported_at_ >= kReportInterval;
    if (report_due) reported_at_ = std::chrono::steady_clock::now();
    const auto write = [run = folder_.path(), keep = config_.checkpoint.keep, first = last_.empty(),
                        report_due](const Checkpoint& saved) {
      Stopwatch watch(at::kCPU);
      SaveResult result{.checkpoint = save_checkpoint(run / "checkpoints", saved, keep, first)};
      set_resumable();
      if (report_due) result.report_failure = refresh_report(run);
      result.seconds = watch.lap();
      return result;
    };
    if (mode == SaveMode::kBlocking || !try_copy(checkpoint)) return record(write(checkpoint));
    // If no thread can be started, async() defers the write to wait(). The shared_ptr makes `write_copy` copyable,
    // because a failed thread start would consume a moved argument.
    const auto write_copy = [write, copy = std::make_shared<const Checkpoint>(std::move(checkpoint))] {
      return write(*copy);
    };
    writing_ = std::async(std::launch::async | std::launch::deferred, write_copy);
  });
}

void CheckpointWriter::wait() {
  if (writing_.valid()) folder_.write([&] { record(writing_.get()); });
}

void CheckpointWriter::wait_if_ended() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) != std::future_status::timeout) wait();
}

bool CheckpointWriter::last_has_state(const TrainState& state) const {
  return to_json(state) == last_state_ && path_exists(last_);
}

void CheckpointWriter::check_best(TrainState& state, const std::string& metric) {
  if (!state.best) return;
  const std::filesystem::path best = folder_.checkpoints() / checkpoint_name(state.best->step);
  const std::string name = best.string() + ", the best by " + state.best->metric + ",";
  if (!path_exists(best)) {
    log_.warning(name + " is missing" + (config_.checkpoint.keeps_best() ? "; the next evaluation replaces it" : ""));
    state.best.reset();
  } else if (!config_.checkpoint.keeps_best()) {
    log_.warning(name + " is kept, but never replaced, because checkpoint.best_metric is now none");
  } else if (state.best->metric != metric) {
    log_.warning(name + " is kept only until the next evaluation, which uses " + metric +
                 " (checkpoint.best_metric). Copy it to keep it longer");
  }
}

std::string CheckpointWriter::resume_command() const {
  const std::filesystem::path now = folder_.current_path();
  return "keel train " + shell_word((now / "config.yaml").string()) + " --resume" +
         (now == folder_.path() ? "" : " run.dir=" + shell_word(now.string()));
}

std::string CheckpointWriter::describe_recovery(int64_t step) {
  std::filesystem::path newest;
  std::string flag;
  try {
    if (writing_.valid()) writing_.wait();
    std::vector<std::string> damaged;
    newest = newest_checkpoint(folder_.checkpoints(), damaged);
    if (!newest.empty() && !find_changed_rows(folder_.path(), newest).empty()) flag = " --damaged-rows";
  } catch (const Error& error) {  // for example, an unreadable folder
    return std::string("Its checkpoints cannot be read: ") + error.what();
  }
  if (newest.empty())
    return "No complete checkpoint is left: all " + std::to_string(step) + " steps are lost. Start the run again";
  const int64_t lost = step - step_of_checkpoint(newest);
  return "The last complete checkpoint is " + (folder_.current_path() / "checkpoints" / newest.filename()).string() +
         "; steps lost after it: " + std::to_string(lost) + ". Continue with: " + resume_command() + flag;
}

void CheckpointWriter::record(const SaveResult& result) {
  last_ = result.checkpoint;
  write_seconds_ += result.seconds;
  if (result.report_failure && !std::exchange(warned_of_report_, true))
    log_.warning(*result.report_failure + "; the report is not updated until this is fixed");
}

/// Copies weights and moments to host memory. Returns false if background saves are off or the copy does not fit.
bool CheckpointWriter::try_copy(Checkpoint& checkpoint) {
  if (!config_.checkpoint.background) return false;
  const int64_t bytes = bytes_to_copy(checkpoint), available = available_memory_bytes();
  const int64_t reserve = std::max<int64_t>(peak_memory_bytes(at::kCPU) - resident_memory_bytes(), 0);
  if (has_room_for_copy(std::max<int64_t>(bytes - copied_bytes_, 0), reserve, available) && copy_to_host(checkpoint)) {
    copied_bytes_ = std::max(copied_bytes_, bytes);
    return true;
  }
  if (!std::exchange(warned_of_memory_, true))
    console_.line("checkpoints are written in the foreground: " + format_bytes(available) +
                  " of memory are free, but a copy takes " + format_bytes(bytes) + " and a step may need " +
                  format_bytes(reserve) + " more. checkpoint.background=false disables copies and this message");
  return false;
}

}  // namespace keel
