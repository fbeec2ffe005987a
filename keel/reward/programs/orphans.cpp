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
// A child must not be seen before it is remembered, nor its number be used again before it is forgotten.
std::mutex mutex;
std::set<pid_t> started;
std::atomic<bool> takes_in = false;

/// Our threads; none where the system does not tell.
std::vector<std::string> threads() {
  try {
    return list_directory(kThreads);
  } catch (const Error&) {
    return {};
  }
}

/// Our children, whichever of our threads the kernel counts them to.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  for (const std::string& thread : threads()) {
    std::ifstream file(std::string(kThreads) + "/" + thread + "/children");
    for (pid_t child = 0; file >> child;) found.push_back(child);
  }
  return found;
}

/// Whether there was one.
bool kill_orphans() {
  const std::scoped_lock lock(mutex);
  bool found = false;
  for (const pid_t child : children()) {
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
  if (!takes_in.exchange(true)) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

void end_orphans() {
  using namespace std::chrono_literals;
  if (!takes_in) return;
  // Who dies takes a moment, and may have had a child just before; nobody is waited for in vain.
  for (int i = 0; i < 1000 && kill_orphans(); ++i) std::this_thread::sleep_for(2ms);
}

}  // namespace keel
