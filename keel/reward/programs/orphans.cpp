#include "keel/reward/programs/orphans.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/files/file.h"

namespace keel {
namespace {

constexpr const char* kThreads = "/proc/self/task";
// Guards `started`: a child is registered before it can be listed, and unregistered before its pid can be reused.
std::mutex mutex;
std::set<pid_t> started;
std::atomic<bool> is_subreaper = false;

/// Returns the threads of this process; empty if /proc is missing.
std::vector<std::string> list_threads() {
  try {
    return list_directory(kThreads);
  } catch (const Error&) {
    return {};
  }
}

/// Returns the children of all threads of this process.
std::vector<pid_t> list_children() {
  std::vector<pid_t> result;
  for (const std::string& thread : list_threads()) {
    std::ifstream file(std::string(kThreads) + "/" + thread + "/children");
    for (pid_t child = 0; file >> child;) result.push_back(child);
  }
  return result;
}

/// Kills the current orphans; returns whether there were any.
bool kill_orphans() {
  const std::scoped_lock lock(mutex);
  bool found = false;
  for (const pid_t child : list_children()) {
    if (started.contains(child)) continue;
    found = true;
    kill(child, SIGKILL);
    waitpid(child, nullptr, WNOHANG);
  }
  return found;
}

}  // namespace

pid_t start_child(const std::function<pid_t()>& start) {
  const std::scoped_lock lock(mutex);
  const pid_t child = start();
  if (child > 0) started.insert(child);
  return child;
}

void reap_child(pid_t child) {
  siginfo_t info;
  while (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) continue;
  const std::scoped_lock lock(mutex);
  waitpid(child, nullptr, 0);
  started.erase(child);
}

void become_subreaper() {
  if (!is_subreaper.exchange(true)) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

void kill_all_orphans() {
  using namespace std::chrono_literals;
  if (!is_subreaper) return;
  // A dying orphan may leave new ones, so this repeats for at most 2 s.
  for (int i = 0; i < 1000 && kill_orphans(); ++i) std::this_thread::sleep_for(2ms);
}

}  // namespace keel
