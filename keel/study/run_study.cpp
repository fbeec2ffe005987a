#include "keel/study/run_study.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <thread>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/directory_path.h"
#include "keel/core/files/file.h"
#include "keel/core/files/hash.h"
#include "keel/core/files/json_file.h"
#include "keel/core/files/link.h"
#include "keel/core/interrupt.h"
#include "keel/core/nearest.h"
#include "keel/core/options/read_config.h"
#include "keel/core/options/yaml_text.h"
#include "keel/core/steady_clock.h"
#include "keel/core/strings.h"
#include "keel/study/file_hashes.h"
#include "keel/train/config/config.h"

namespace keel {
namespace {

/// Starts a program with its output in a file. The program gets a signal when this process ends for any reason.
pid_t start(const std::vector<std::string>& arguments, const std::filesystem::path& log) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  remove_file(log);  // not the target of a link
  const DirectoryPath path = directory_path(log);
  const FileHandle output(openat(path.directory, path.name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!output.is_open()) fail(ExitCode::kHealthGuard, log.string(), ": cannot be written: ", std::strerror(errno));
  // Signals are blocked until the child has restored the default handlers, so that none is lost.
  sigset_t all_signals, old_mask;
  sigfillset(&all_signals);
  sigprocmask(SIG_SETMASK, &all_signals, &old_mask);
  const pid_t parent = getpid(), child = fork();
  if (child != 0) sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  if (child < 0) fail(ExitCode::kHealthGuard, "cannot start a process for a run: ", std::strerror(errno));
  if (child > 0) return child;
  for (const int handled : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXCPU, SIGALRM}) signal(handled, SIG_DFL);
  sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  setpgid(0, 0);  // this process passes on signals from the terminal
  // This may be sent several times, once per thread of the parent. Of all handled signals, only SIGXCPU counts once.
  prctl(PR_SET_PDEATHSIG, SIGXCPU);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::kInterrupted));
  dup2(output.get(), STDOUT_FILENO);
  dup2(output.get(), STDERR_FILENO);
  execv(argv[0], argv.data());
  _exit(static_cast<int>(ExitCode::kInternal));
}

/// Returns the error of a run, or its last line.
std::string read_error(const std::filesystem::path& log) {
  const std::string text = path_exists(log) ? read_file(log) : "";
  std::string last;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("keel: ")) return std::string(line.substr(6));
    if (!trimmed(line).empty()) last = line;
  }
  return last.empty() ? "no message" : last;
}

class Runner {
 public:
  Runner(const Study& study, const StudyFolder& folder, const std::filesystem::path& program, OldRuns old_runs,
         Console& console)
      : study_(study), folder_(folder), program_(program), old_runs_(old_runs), console_(console) {
    const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
    threads_ = study.options.jobs > 1 ? std::max<int64_t>(1, cores / study.options.jobs) : 0;
  }

  StudyResult run() {
    const std::vector<StudyRun> runs = plan_runs(study_);
    for (const StudyRun& run : runs) prepare(run);
    queue_missing_sft_runs(runs);
    for (const StudyRun& run : runs)  // after all runs were accepted
      if (outcomes_.contains(run.name)) remove_checkpoints(run);
    total_ = waiting_.size();
    if (total_ < runs.size())
      console_.line(std::to_string(runs.size() - total_) + " of " + std::to_string(runs.size()) +
                    " runs are already done");
    try {
      start_ready_runs();
      while (!waiting_.empty() || !running_.empty()) {
        show_progress();
        poll_unless_stopped({}, 200);
        folder_.require_not_moved();
        collect_ended_runs();
        start_ready_runs();
      }
    } catch (...) {  // interrupted, or a system call failed
      stop_all();
      throw;
    }
    for (const StudyRun& run : runs)
      if (const auto found = outcomes_.find(run.name); found != outcomes_.end() && !run.variant.empty())
        result_.outcomes.push_back(found->second);
    warn_of_missing_measures();
    return std::move(result_);
  }

 private:
  struct Running {
    StudyRun run;
    double start_seconds = 0;
  };
  struct Times {  // of finished runs
    double seconds = 0;
    int64_t count = 0;
    void add(double duration) { seconds += duration, ++count; }
  };

  /// Returns the text of a run's configuration file. A comment at the top has a hash of what the settings do not
  /// contain: the SFT run that it starts from, and the contents of files that the settings name.
  std::string config_text(const StudyRun& run) {
    Json dependencies = Json::object();
    if (!run.sft_run.empty()) dependencies["sft_run"] = texts_.at(run.sft_run);
    ConfigTree tree;
    tree.value = run.config;
    std::vector<std::string> notes;
    Config config = load_config(tree, notes);
    if (!run.sft_run.empty()) config.model.path.clear();
    dependencies["files"] = files_.hash_files(std::move(config));
    return "# with " + sha256_hex(dependencies.dump()) + "\n" + yaml_document(run.config);
  }

  /// Fails if the folder was moved or copied, since configurations contain the paths of runs.
  void require_not_moved(const std::filesystem::path& file, const StudyRun& run) const {
    const Json old = read_config(file).value.value("run", Json::object());
    const std::filesystem::path old_dir = old.value("dir", folder_.run(run.name).string());
    if (old_dir != folder_.run(run.name))
      fail(ExitCode::kBadConfiguration, "study.dir: ", study_.options.dir, " was moved or copied from ",
           old_dir.parent_path().parent_path().string(), ", where ", file.string(),
           " expects its runs; move it back and continue there, or repeat the runs with --overwrite");
  }

  /// Writes a run's configuration, and queues the run unless it is already done.
  void prepare(const StudyRun& run) {
    const std::filesystem::path file = folder_.config(run.name);
    const std::string& text = texts_[run.name] = config_text(run);
    const bool is_changed = path_exists(file) && read_file(file) != text;
    if (is_changed && old_runs_ == OldRuns::kKept) {
      require_not_moved(file, run);
      fail(ExitCode::kBadConfiguration, "study.dir: ", study_.options.dir, " has the run ", run.name,
           " with other settings, another SFT run, or changed data, reward or model files (", file.string(),
           "); choose another study.dir, or repeat such runs with --overwrite");
    }
    if (is_changed) {  // removed before writing, so that an interruption leaves no old run with the new configuration
      remove_tree(folder_.outcome(run.name));
      remove_tree(newest_checkpoint(run));
    }
    write_atomically(file, text);
    if (!read_outcome(run)) waiting_.push_back(run);
  }

  /// Removes the checkpoints of a finished run if configured. Those of an SFT run stay, since runs start from them.
  void remove_checkpoints(const StudyRun& run) const {
    if (run.variant.empty() || study_.options.keep_checkpoints) return;
    const std::filesystem::path folder = folder_.run(run.name);
    if (is_inside(folder, folder_.path())) return remove_tree(folder / "checkpoints");
    if (path_exists(folder / "checkpoints"))
      console_.warning(folder.string() +
                       " is outside the study's folder, so study.keep_checkpoints=false does not remove its "
                       "checkpoints; remove them yourself if they are not needed");
  }

  /// Queues finished SFT runs whose folders were removed but that waiting runs start from.
  void queue_missing_sft_runs(const std::vector<StudyRun>& runs) {
    std::set<std::string> needed;
    for (const StudyRun& run : waiting_) needed.insert(run.sft_run);
    for (const StudyRun& run : runs)
      if (needed.contains(run.name) && outcomes_.contains(run.name) && !path_exists(folder_.run(run.name))) {
        outcomes_.erase(run.name);
        waiting_.push_front(run);
      }
  }

  /// Reads the outcome of a finished run and returns whether there is one. Measures the run again if study.last or
  /// study.measures changed.
  bool read_outcome(const StudyRun& run) {
    const std::filesystem::path file = folder_.outcome(run.name);
    if (!path_exists(file)) return false;
    const std::string fix = "; remove the file to measure the run again";
    Json json;
    try {
      json = read_json_file(file);
    } catch (const Error& error) {
      fail(error.code(), error.what(), fix);
    }
    Outcome outcome = parse_outcome(json, file.string());
    if (outcome.variant != run.variant || outcome.seed != run.seed)
      fail(ExitCode::kBadInput, file.string(), ": is of another run", fix);
    if (!run.variant.empty() && json.value("measured", Json()) != measure_settings()) {
      const std::filesystem::path folder = folder_.run(run.name);
      if (!path_exists(folder / "metrics.jsonl"))
        fail(ExitCode::kBadConfiguration, file.string(), ": was measured with other study.last or study.measures, and ",
             folder.string(), " is missing; restore the settings, or remove the file to repeat the run");
      record_outcome(run);
      return true;
    }
    outcomes_[run.name] = std::move(outcome);
    return true;
  }

  Json measure_settings() const { return {{"last", study_.options.last}, {"measures", study_.options.measures}}; }

  void record_outcome(const StudyRun& run) {
    Outcome outcome;
    if (!run.variant.empty())
      outcome = measure_run(folder_.run(run.name), study_.options.last, study_.options.measures);
    outcome.variant = run.variant;
    outcome.seed = run.seed;
    Json json = to_json(outcome);
    json["measured"] = measure_settings();
    write_atomically(folder_.outcome(run.name), json_line(json) + "\n");
    outcomes_[run.name] = std::move(outcome);
  }

  /// Warns of names in study.measures that no run has, which may be misspelled.
  void warn_of_missing_measures() {
    std::vector<std::string> known;
    for (const Outcome& outcome : result_.outcomes) {
      const std::filesystem::path run = folder_.run(outcome.variant + "-" + std::to_string(outcome.seed));
      if (known.empty() && path_exists(run / "metrics.jsonl")) known = metric_names(run);
    }
    for (const std::string& name : study_.options.measures) {
      const auto has_measure = [&](const Outcome& outcome) { return outcome.measures.contains(name); };
      if (result_.outcomes.empty() || std::ranges::any_of(result_.outcomes, has_measure)) continue;
      const std::optional<std::string> suggestion = nearest_name(name, known);
      result_.unmeasured.push_back(
          "study.measures: no run has the metric " + name +
          (suggestion ? "; did you mean " + *suggestion + "?" : "; docs/metrics.md lists them"));
    }
  }

  void start_ready_runs() {
    for (auto next = waiting_.begin();
         next != waiting_.end() && static_cast<int64_t>(running_.size()) < study_.options.jobs;) {
      if (!next->sft_run.empty() && result_.failures.contains(next->sft_run)) {
        fail_run(*next, "its SFT run " + next->sft_run + " failed");
      } else if (next->sft_run.empty() || outcomes_.contains(next->sft_run)) {
        start_run(*next);
      } else {
        ++next;
        continue;
      }
      next = waiting_.erase(next);
    }
  }

  /// The file that marks a run as resumable.
  std::filesystem::path newest_checkpoint(const StudyRun& run) const {
    return folder_.run(run.name) / "checkpoints" / "LATEST";
  }

  /// Fails if input files changed during the study. Checked at start and end, since a run reads them after its start.
  void require_same_files(const StudyRun& run, const char* when) {
    if (config_text(run) != texts_.at(run.name))
      fail(ExitCode::kBadInput, "data, reward or model files were changed during the study, before ", run.name, " ",
           when, "; restore them and run the same command to continue, or repeat the runs with --overwrite");
  }

  void start_run(const StudyRun& run) {
    require_same_files(run, "began");
    const std::filesystem::path folder = folder_.run(run.name);
    std::vector<std::string> arguments = {program_.string(), "train", folder_.config(run.name).string()};
    if (path_exists(newest_checkpoint(run)))
      arguments.push_back("--resume");
    else if (path_exists(folder))
      arguments.push_back("--overwrite");  // the old run has other settings, or no checkpoint
    if (threads_ > 0 && !run.config.value("run", Json::object()).contains("threads"))
      arguments.push_back("run.threads=" + std::to_string(threads_));
    const pid_t process = start(arguments, folder_.log(run.name));
    running_.emplace(process, Running{run, steady_seconds()});
  }

  void collect_ended_runs() {
    for (auto process = running_.begin(); process != running_.end();) {
      int status = 0;
      if (waitpid(process->first, &status, WNOHANG) == 0) {
        ++process;
        continue;
      }
      const Running ended = std::move(process->second);
      process = running_.erase(process);
      finish_run(ended, status);
    }
  }

  void finish_run(const Running& ended, int status) {
    const StudyRun& run = ended.run;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      const std::string exit_status = WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status))
                                                        : "signal " + std::to_string(WTERMSIG(status));
      return fail_run(run, read_error(folder_.log(run.name)) + " (" + exit_status + ")");
    }
    require_same_files(run, "ended");
    try {
      record_outcome(run);
    } catch (const Error& error) {
      return fail_run(run, error.what());
    }
    (run.variant.empty() ? sft_times_ : run_times_).add(steady_seconds() - ended.start_seconds);
    ++finished_;
    remove_checkpoints(run);
  }

  void fail_run(const StudyRun& run, const std::string& reason) {
    console_.warning("run " + run.name + " failed: " + reason + "; the others continue (see " +
                     folder_.log(run.name).string() + ")");
    result_.failures[run.name] = reason;
    if (!run.variant.empty()) ++result_.failed[run.variant];
    ++finished_;
  }

  void show_progress() {
    std::string text = study_.name + ": " + std::to_string(finished_) + " of " + std::to_string(total_) + " runs, " +
                       std::to_string(running_.size()) + " running";
    if (run_times_.count > 0) {
      double remaining = 0;
      for (const StudyRun& run : waiting_) remaining += expected_seconds(run);
      for (const auto& [process, running] : running_)
        remaining += std::max(0.0, expected_seconds(running.run) - (steady_seconds() - running.start_seconds));
      // Running runs that take longer than the finished ones have no estimate.
      if (remaining > 0) text += ", " + format_duration(remaining / static_cast<double>(study_.options.jobs)) + " left";
    }
    if (text == last_progress_) return;
    last_progress_ = text;
    console_.progress(text);
  }

  /// Estimates a duration from finished runs, or for an SFT run from finished SFT runs.
  double expected_seconds(const StudyRun& run) const {
    const Times& times = run.variant.empty() && sft_times_.count > 0 ? sft_times_ : run_times_;
    return times.seconds / static_cast<double>(times.count);
  }

  /// Signals the runs to stop, and waits until they have saved.
  void stop_all() {
    for (const auto& [process, running] : running_) kill(process, SIGTERM);
    for (const auto& [process, running] : running_) waitpid(process, nullptr, 0);
    running_.clear();
  }

  const Study& study_;
  const StudyFolder& folder_;
  std::filesystem::path program_;
  OldRuns old_runs_;
  Console& console_;
  int64_t threads_ = 0;  // per run if there are several at a time; 0: the run decides
  std::deque<StudyRun> waiting_;
  std::map<pid_t, Running> running_;
  FileHashes files_;
  std::map<std::string, std::string> texts_;  // of configuration files, by run
  std::map<std::string, Outcome> outcomes_;   // of finished runs
  StudyResult result_;
  size_t total_ = 0, finished_ = 0;
  Times sft_times_, run_times_;
  std::string last_progress_;
};

}  // namespace

StudyResult run_study(const Study& study, const StudyFolder& folder, const std::filesystem::path& program,
                      OldRuns old_runs, Console& console) {
  return Runner(study, folder, program, old_runs, console).run();
}

}  // namespace keel
