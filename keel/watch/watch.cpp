#include "keel/watch/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "keel/core/error.h"
#include "keel/core/interrupt.h"
#include "keel/core/steady_clock.h"
#include "keel/reward/programs/orphans.h"
#include "keel/watch/http_server.h"
#include "keel/watch/site.h"
#include "keel/watch/watched_runs.h"

namespace keel {
namespace {

constexpr int kBetweenLooks = 1000, kTimesLook = 20;  // milliseconds; how often the time that a look took
constexpr double kOpen = 3, kLinger = 3;              // seconds: since a page last asked; that it may ask on

/// Looks at the runs, and says how long to wait for the next look: of ten thousand runs one takes its time.
int look(WatchedRuns& runs, std::vector<std::string>& told) {
  const double begin = steady_seconds();
  told = runs.look();
  return std::max(kBetweenLooks, static_cast<int>((steady_seconds() - begin) * 1000 * kTimesLook));
}

/// The process beside a run: looks and serves until the run's process has closed its end of the pipe.
void serve_beside(Listener listener, const std::filesystem::path& run, int alive) {
  WatchedRuns runs = WatchedRuns::of_beginning(run);
  runs.look();
  Site site(runs);
  const HttpServer server(std::move(listener), [&](const Question& question) { return site.answer(question); });
  std::vector<std::string> told;
  pollfd end{.fd = alive, .events = 0, .revents = 0};
  for (bool goes_on = true; goes_on;) {
    const int ready = poll(&end, 1, look(runs, told));
    goes_on = ready == 0 || (ready < 0 && errno == EINTR);
  }
  const double ended = steady_seconds();
  while (steady_seconds() < ended + kLinger && steady_seconds() < site.last_asked() + kOpen) {
    runs.look();
    poll(nullptr, 0, 200);
  }
}

/// What a forked process must not share with the one it comes from: its handlers, its terminal, its output.
void stand_apart() {
  for (const int number : {SIGINT, SIGHUP, SIGUSR1, SIGXCPU, SIGALRM}) signal(number, SIG_IGN);
  signal(SIGTERM, SIG_DFL);
  setpgid(0, 0);
  const FileHandle nobody(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nobody.get(), descriptor);
  [[maybe_unused]] const int niceness = nice(10);  // the run comes first
}

}  // namespace

void watch(const std::vector<std::string>& folders, const WatchPlace& place, Console& console) {
  require_server();
  WatchedRuns runs(folders);
  runs.look();
  Listener listener = listen_at(place);
  console.result(listener.address);
  Site site(runs);
  const HttpServer server(std::move(listener), [&](const Question& question) { return site.answer(question); });
  try {
    for (std::vector<std::string> told;;) {
      const int pause = look(runs, told);
      for (const std::string& sentence : told) console.line(sentence);
      poll_unless_stopped({}, pause);
    }
  } catch (const Interrupted&) {  // which is how it ends
  }
}

WatchBeside::WatchBeside(const std::filesystem::path& run) {
  require_server();
  Listener listener = listen_at({});
  address_ = listener.address;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(ExitCode::kHealthGuard, "no pipe can be made: ", std::strerror(errno));
  const FileHandle other(ends[0]);
  alive_ = FileHandle(ends[1]);
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);  // until the new process has no handlers of this one's
  process_ = start_child(fork);
  if (process_ == 0) {
    stand_apart();
    sigprocmask(SIG_SETMASK, &before, nullptr);
    alive_.close();
    try {
      serve_beside(std::move(listener), run, other.get());
    } catch (const std::exception&) {  // nobody is there to be told: the page says that the server has ended
    }
    _exit(0);
  }
  const int error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (process_ < 0) fail(ExitCode::kHealthGuard, "no process can be made for --watch: ", std::strerror(error));
}

WatchBeside::~WatchBeside() {
  alive_.close();
  const double until = steady_seconds() + kLinger + 2;
  const auto has_ended = [this] {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT | WNOHANG) != 0 || info.si_pid != 0;
  };
  while (!has_ended()) {
    if (steady_seconds() > until) kill(process_, SIGKILL);
    poll(nullptr, 0, 20);
  }
  reap_child(process_);
}

}  // namespace keel
