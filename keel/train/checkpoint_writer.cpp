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

constexpr std::chrono::minutes kBetweenReports(1);  // which take a second or two of a long run

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

void CheckpointWriter::save(const std::function<Checkpoint()>& collect, SaveMode how) {
  wait();
  Checkpoint checkpoint = collect();
  folder_.write([&] {
    checkpoint.lines = folder_.sync();
    last_state_ = to_json(checkpoint.state);
    const bool report = std::chrono::steady_clock::now() - reported_at_ >= kBetweenReports;
    if (report) reported_at_ = std::chrono::steady_clock::now();
    const auto write = [run = folder_.path(), keep = config_.checkpoint.keep, first = last_.empty(),
                        report](const Checkpoint& whole) {
      Stopwatch watch(at::kCPU);
      Written written{.checkpoint = save_checkpoint(run / "checkpoints", whole, keep, first)};
      set_resumable();
      if (report) written.report_failure = refresh_report(run);
      written.seconds = watch.lap();
      return written;
    };
    if (how == SaveMode::kNow || !copied(checkpoint)) return note(write(checkpoint));
    // Deferred where there can be no more threads: written when it is waited for. What is given to both must be copied,
    // for the library would move it into the thread that was not made.
    const auto later = [write, copy = std::make_shared<const Checkpoint>(std::move(checkpoint))] {
      return write(*copy);
    };
    writing_ = std::async(std::launch::async | std::launch::deferred, later);
  });
}

void CheckpointWriter::wait() {
  if (writing_.valid()) folder_.write([&] { note(writing_.get()); });
}

void CheckpointWriter::wait_if_ended() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) != std::future_status::timeout) wait();
}

bool CheckpointWriter::last_holds(const TrainState& state) const {
  return to_json(state) == last_state_ && path_exists(last_);
}

void CheckpointWriter::check_best(TrainState& state, const std::string& metric) {
  if (!state.best) return;
  const std::filesystem::path best = folder_.checkpoints() / checkpoint_name(state.best->step);
  const std::string name = best.string() + ", the best by " + state.best->metric + ",";
  if (!path_exists(best)) {
    log_.warning(name + " is gone" + (config_.checkpoint.keeps_best() ? "; the next evaluation takes its place" : ""));
    state.best.reset();
  } else if (!config_.checkpoint.keeps_best()) {
    log_.warning(name + " is kept, but checkpoint.best_metric is none now: no better one will take its place");
  } else if (state.best->metric != metric) {
    log_.warning(name + " is kept until the next evaluation, which is the first by " + metric +
                 " (checkpoint.best_metric); copy it to keep it for longer");
  }
}

std::string CheckpointWriter::resume_command() const {
  const std::filesystem::path now = folder_.current_path();
  return "keel train " + shell_word((now / "config.yaml").string()) + " --resume" +
         (now == folder_.path() ? "" : " run.dir=" + shell_word(now.string()));
}

std::string CheckpointWriter::what_is_left(int64_t step) {
  std::filesystem::path newest;
  std::string flag;
  try {
    if (writing_.valid()) writing_.wait();
    std::vector<std::string> damaged;
    newest = newest_checkpoint(folder_.checkpoints(), damaged);
    if (!newest.empty() && !find_changed_rows(folder_.path(), newest).empty()) flag = " --damaged-rows";
  } catch (const Error& error) {  // a folder that cannot be read, either
    return std::string("Its checkpoints cannot be read: ") + error.what();
  }
  if (newest.empty())
    return "No complete checkpoint is left: all " + std::to_string(step) + " steps are lost. Start the run again";
  const int64_t lost = step - std::stoll(newest.filename().string().substr(5));
  return "The last complete checkpoint is " + (folder_.current_path() / "checkpoints" / newest.filename()).string() +
         "; steps lost after it: " + std::to_string(lost) + ". Continue with: " + resume_command() + flag;
}

void CheckpointWriter::note(const Written& written) {
  last_ = written.checkpoint;
  write_seconds_ += written.seconds;
  if (written.report_failure && !std::exchange(told_of_report_, true))
    log_.warning(*written.report_failure + "; there is no new report until this is mended");
}

/// Makes another set of weights and moments in host memory; false where it is not wanted or does not fit.
bool CheckpointWriter::copied(Checkpoint& checkpoint) {
  if (!config_.checkpoint.background) return false;
  const int64_t bytes = bytes_to_copy(checkpoint), available = available_memory_bytes();
  const int64_t again = std::max<int64_t>(peak_memory_bytes(at::kCPU) - held_memory_bytes(), 0);
  if (has_room_for_copy(std::max<int64_t>(bytes - copied_bytes_, 0), again, available) && copy_to_host(checkpoint)) {
    copied_bytes_ = std::max(copied_bytes_, bytes);
    return true;
  }
  if (!std::exchange(told_of_memory_, true))
    console_.line("a checkpoint is written while the run waits: of the " + format_bytes(available) +
                  " of memory that are free, a copy takes " + format_bytes(bytes) + ", and a step may need " +
                  format_bytes(again) + " again. Told once; checkpoint.background=false makes no copies");
  return false;
}

}  // namespace keel
