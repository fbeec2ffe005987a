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
#include "keel/core/files/file.h"
#include "keel/core/files/hash.h"
#include "keel/core/files/json_file.h"
#include "keel/core/files/link.h"
#include "keel/core/files/directory_path.h"
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

/// Starts a program with its output in a file. It is asked to stop when this process ends, however that happens.
pid_t start(const std::vector<std::string>& words, const std::filesystem::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  remove_file(log);  // and not what a link leads to
  const DirectoryPath at = directory_path(log);
  const FileHandle output(openat(at.directory, at.name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!output.is_open()) fail(ExitCode::kHealthGuard, log.string(), ": cannot be written: ", std::strerror(errno));
  // Between fork and exec the child has this program's handlers, which would take a signal and forget it.
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t parent = getpid(), child = fork();
  if (child != 0) sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) fail(ExitCode::kHealthGuard, "no process can be made for a run: ", std::strerror(errno));
  if (child > 0) return child;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXCPU, SIGALRM}) signal(number, SIG_DFL);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  setpgid(0, 0);  // a signal typed at the terminal is this program's to pass on
  // Sent again with every thread of the parent's that the child is handed on to; of all signals, only this one counts
  // once, however often it comes.
  prctl(PR_SET_PDEATHSIG, SIGXCPU);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::kInterrupted));
  dup2(output.get(), STDOUT_FILENO);
  dup2(output.get(), STDERR_FILENO);
  execv(arguments[0], arguments.data());
  _exit(static_cast<int>(ExitCode::kInternal));
}

/// The error that a run ended with, else its last line.
std::string last_words(const std::filesystem::path& log) {
  const std::string text = path_exists(log) ? read_file(log) : "";
  std::string last;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("keel: ")) return std::string(line.substr(6));
    if (!trimmed(line).empty()) last = line;
  }
  return last.empty() ? "nothing was said" : last;
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
    make_missing_warm_ups(runs);
    for (const StudyRun& run : runs)  // now that none of them refuses the folder
      if (outcomes_.contains(run.name)) remove_unwanted_network(run);
    all_ = waiting_.size();
    if (all_ < runs.size())
      console_.line(std::to_string(runs.size() - all_) + " of " + std::to_string(runs.size()) +
                    " runs are done already");
    try {
      begin_what_can();
      while (!waiting_.empty() || !running_.empty()) {
        show();
        poll_unless_stopped({}, 200);
        folder_.require_at_its_path();
        collect();
        begin_what_can();
      }
    } catch (...) {  // stopped, or the machine refused something
      end_all();
      throw;
    }
    for (const StudyRun& run : runs)
      if (const auto made = outcomes_.find(run.name); made != outcomes_.end() && !run.variant.empty())
        result_.outcomes.push_back(made->second);
    look_for_measures();
    return std::move(result_);
  }

 private:
  struct Running {
    StudyRun run;
    double began = 0;
  };
  struct Times {  // of runs that came to their end
    double seconds = 0;
    int64_t count = 0;
    void add(double more) { seconds += more, ++count; }
  };

  /// The file of a run's configuration; a line at its top changes with what it cannot say: the warm-up that the run
  /// starts from, and what is in the files and folders that it names.
  std::string config_text(const StudyRun& run) {
    Json beside = Json::object();
    if (!run.warm_up.empty()) beside["warm_up"] = texts_.at(run.warm_up);
    ConfigTree tree;
    tree.value = run.config;
    std::vector<std::string> notes;
    Config config = load_config(tree, notes);
    if (!run.warm_up.empty()) config.model.path.clear();
    beside["files"] = files_.of(std::move(config));
    return "# with " + sha256_hex(beside.dump()) + "\n" + yaml_document(run.config);
  }

  /// A folder that was moved, or copied, has other configurations for that alone: they name the runs' places.
  void require_not_moved(const std::filesystem::path& file, const StudyRun& run) const {
    const Json old = read_config(file).value.value("run", Json::object());
    const std::filesystem::path made_in = old.value("dir", folder_.run(run.name).string());
    if (made_in != folder_.run(run.name))
      fail(ExitCode::kBadConfiguration, "study.dir: ", study_.options.dir, " was moved or copied from ",
           made_in.parent_path().parent_path().string(), ", where its runs are said to be (", file.string(),
           "); move it back and go on with it there, or make the runs anew with --overwrite");
  }

  /// Writes a run's configuration, and sees whether the run was made already.
  void prepare(const StudyRun& run) {
    const std::filesystem::path file = folder_.config(run.name);
    const std::string& text = texts_[run.name] = config_text(run);
    const bool is_other = path_exists(file) && read_file(file) != text;
    if (is_other && old_runs_ == OldRuns::kKept) {
      require_not_moved(file, run);
      fail(ExitCode::kBadConfiguration, "study.dir: ", study_.options.dir, " has the run ", run.name,
           " with other settings, another warm-up, or files of data, rewards or the model that were changed since (",
           file.string(), "); choose another study.dir, or make such runs anew with --overwrite");
    }
    if (is_other) {  // first: when this is interrupted, the old run must not pass for one of the new configuration
      remove_tree(folder_.outcome(run.name));
      remove_tree(newest_checkpoint(run));
    }
    write_atomically(file, text);
    if (!read_outcome(run)) waiting_.push_back(run);
  }

  /// That of a warm-up stays: others start from it.
  void remove_unwanted_network(const StudyRun& run) const {
    if (run.variant.empty() || study_.options.keep_checkpoints) return;
    const std::filesystem::path folder = folder_.run(run.name);
    if (leads_into(folder, folder_.path())) return remove_tree(folder / "checkpoints");
    if (path_exists(folder / "checkpoints"))
      console_.warning(folder.string() +
                       " leads out of the study's folder; the networks there stay, also with "
                       "study.keep_checkpoints=false: remove them yourself, if nobody needs them");
  }

  /// A warm-up that is done may have been removed since; who starts from it needs it again, and gets the same.
  void make_missing_warm_ups(const std::vector<StudyRun>& runs) {
    std::set<std::string> wanted;
    for (const StudyRun& run : waiting_) wanted.insert(run.warm_up);
    for (const StudyRun& run : runs)
      if (wanted.contains(run.name) && outcomes_.contains(run.name) && !path_exists(folder_.run(run.name))) {
        outcomes_.erase(run.name);
        waiting_.push_front(run);
      }
  }

  /// What was measured of a run, if it was; measured again where that is to be measured otherwise now.
  bool read_outcome(const StudyRun& run) {
    const std::filesystem::path file = folder_.outcome(run.name);
    if (!path_exists(file)) return false;
    const std::string way_out =
        "; remove the file, and the run is measured again, or made again where its checkpoints are gone";
    Json json;
    try {
      json = read_json_file(file);
    } catch (const Error& error) {
      fail(error.code(), error.what(), way_out);
    }
    Outcome outcome = parse_outcome(json, file.string());
    if (outcome.variant != run.variant || outcome.seed != run.seed)
      fail(ExitCode::kBadInput, file.string(), ": is of another run", way_out);
    if (!run.variant.empty() && json.value("measured", Json()) != how_measured()) {
      const std::filesystem::path folder = folder_.run(run.name);
      if (!path_exists(folder / "metrics.jsonl"))
        fail(ExitCode::kBadConfiguration, file.string(), ": was measured with other study.last or study.measures, and ",
             folder.string(), " is gone; set them back, or remove the file, and the run is made again");
      record_outcome(run);
      return true;
    }
    outcomes_[run.name] = std::move(outcome);
    return true;
  }

  Json how_measured() const { return {{"last", study_.options.last}, {"measures", study_.options.measures}}; }

  void record_outcome(const StudyRun& run) {
    Outcome outcome;
    if (!run.variant.empty()) outcome = measure_run(folder_.run(run.name), study_.options.last, study_.options.measures);
    outcome.variant = run.variant;
    outcome.seed = run.seed;
    Json json = to_json(outcome);
    json["measured"] = how_measured();
    write_atomically(folder_.outcome(run.name), json_line(json) + "\n");
    outcomes_[run.name] = std::move(outcome);
  }

  /// A name of study.measures may be mistyped, which only the runs can tell.
  void look_for_measures() {
    std::vector<std::string> known;
    for (const Outcome& outcome : result_.outcomes) {
      const std::filesystem::path run = folder_.run(outcome.variant + "-" + std::to_string(outcome.seed));
      if (known.empty() && path_exists(run / "metrics.jsonl")) known = metric_names(run);
    }
    for (const std::string& name : study_.options.measures) {
      const auto has = [&](const Outcome& outcome) { return outcome.measures.contains(name); };
      if (result_.outcomes.empty() || std::ranges::any_of(result_.outcomes, has)) continue;
      const std::optional<std::string> near = nearest_name(name, known);
      result_.unmeasured.push_back("study.measures: no run has the metric " + name +
                                   (near ? "; did you mean " + *near + "?" : "; docs/metrics.md names them"));
    }
  }

  void begin_what_can() {
    for (auto next = waiting_.begin();
         next != waiting_.end() && static_cast<int64_t>(running_.size()) < study_.options.jobs;) {
      if (!next->warm_up.empty() && result_.failures.contains(next->warm_up)) {
        fail_run(*next, "its warm-up " + next->warm_up + " failed");
      } else if (next->warm_up.empty() || outcomes_.contains(next->warm_up)) {
        begin(*next);
      } else {
        ++next;
        continue;
      }
      next = waiting_.erase(next);
    }
  }

  /// The file that says that a run can be gone on with.
  std::filesystem::path newest_checkpoint(const StudyRun& run) const {
    return folder_.run(run.name) / "checkpoints" / "LATEST";
  }

  /// Runs that read other files are not compared. Asked twice, since a run reads them some time after its start.
  void require_same_files(const StudyRun& run, const char* when) {
    if (config_text(run) != texts_.at(run.name))
      fail(ExitCode::kBadInput, "files of data, rewards or the model were changed while the study went on, before ",
           run.name, " ", when, "; restore them, and the same command goes on, or make the runs anew with --overwrite");
  }

  void begin(const StudyRun& run) {
    require_same_files(run, "began");
    const std::filesystem::path folder = folder_.run(run.name);
    std::vector<std::string> words = {program_.string(), "train", folder_.config(run.name).string()};
    if (path_exists(newest_checkpoint(run)))
      words.push_back("--resume");
    else if (path_exists(folder))
      words.push_back("--overwrite");  // of other settings, or it came to no checkpoint
    if (threads_ > 0 && !run.config.value("run", Json::object()).contains("threads"))
      words.push_back("run.threads=" + std::to_string(threads_));
    const pid_t process = start(words, folder_.log(run.name));
    running_.emplace(process, Running{run, steady_seconds()});
  }

  void collect() {
    for (auto each = running_.begin(); each != running_.end();) {
      int status = 0;
      if (waitpid(each->first, &status, WNOHANG) == 0) {
        ++each;
        continue;
      }
      const Running ended = std::move(each->second);
      each = running_.erase(each);
      end(ended, status);
    }
  }

  void end(const Running& ended, int status) {
    const StudyRun& run = ended.run;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      const std::string how = WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status))
                                                : "signal " + std::to_string(WTERMSIG(status));
      return fail_run(run, last_words(folder_.log(run.name)) + " (" + how + ")");
    }
    require_same_files(run, "ended");
    try {
      record_outcome(run);
    } catch (const Error& error) {
      return fail_run(run, error.what());
    }
    (run.variant.empty() ? warm_up_times_ : run_times_).add(steady_seconds() - ended.began);
    ++made_;
    remove_unwanted_network(run);
  }

  void fail_run(const StudyRun& run, const std::string& why) {
    console_.warning("run " + run.name + " failed: " + why + "; the others go on, and " +
                     folder_.log(run.name).string() + " has what it said");
    result_.failures[run.name] = why;
    if (!run.variant.empty()) ++result_.failed[run.variant];
    ++made_;
  }

  void show() {
    std::string text = study_.name + ": " + std::to_string(made_) + " of " + std::to_string(all_) + " runs, " +
                       std::to_string(running_.size()) + " under way";
    if (run_times_.count > 0) {
      double left = 0;
      for (const StudyRun& run : waiting_) left += expected_seconds(run);
      for (const auto& [process, running] : running_)
        left += std::max(0.0, expected_seconds(running.run) - (steady_seconds() - running.began));
      text += ", " + format_duration(left / static_cast<double>(study_.options.jobs)) + " left";
    }
    if (text == shown_) return;
    shown_ = text;
    console_.progress(text);
  }

  /// By those of its kind that were made here; a warm-up is another thing than a run.
  double expected_seconds(const StudyRun& run) const {
    const Times& times = run.variant.empty() && warm_up_times_.count > 0 ? warm_up_times_ : run_times_;
    return times.seconds / static_cast<double>(times.count);
  }

  /// Asks the runs to stop, and waits until they have saved.
  void end_all() {
    for (const auto& [process, running] : running_) kill(process, SIGTERM);
    for (const auto& [process, running] : running_) waitpid(process, nullptr, 0);
    running_.clear();
  }

  const Study& study_;
  const StudyFolder& folder_;
  std::filesystem::path program_;
  OldRuns old_runs_;
  Console& console_;
  int64_t threads_ = 0;  // of each run where several go on at a time; 0: its own choice
  std::deque<StudyRun> waiting_;
  std::map<pid_t, Running> running_;
  FileHashes files_;
  std::map<std::string, std::string> texts_;  // of configurations, by run
  std::map<std::string, Outcome> outcomes_;   // of the runs that are done
  StudyResult result_;
  size_t all_ = 0, made_ = 0;
  Times warm_up_times_, run_times_;
  std::string shown_;
};

}  // namespace

StudyResult run_study(const Study& study, const StudyFolder& folder, const std::filesystem::path& program,
                      OldRuns old_runs, Console& console) {
  return Runner(study, folder, program, old_runs, console).run();
}

}  // namespace keel
