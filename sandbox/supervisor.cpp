#include "sandbox/supervisor.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "sandbox/confine.h"

namespace sandbox {
namespace {

constexpr int kCallerSocket = 3;

/// The parent of every process in /proc.
std::map<pid_t, pid_t> read_parents() {
  std::map<pid_t, pid_t> result;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return result;
  while (const dirent* entry = readdir(folder)) {
    const pid_t process = std::atoi(entry->d_name);
    if (process <= 0) continue;
    FILE* file = fopen(("/proc/" + std::string(entry->d_name) + "/stat").c_str(), "re");
    if (file == nullptr) continue;
    char text[256] = {};  // PID (NAME) STATE PARENT; NAME has at most 64 bytes and may contain brackets
    const size_t size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    const size_t bracket = std::string_view(text, size).rfind(')');
    int parent = 0;
    if (bracket != std::string_view::npos && sscanf(text + bracket, ") %*c %d", &parent) == 1) result[process] = parent;
  }
  closedir(folder);
  return result;
}

/// All descendants of this process.
std::set<pid_t> descendants() {
  const std::map<pid_t, pid_t> parent_of = read_parents();
  std::set<pid_t> found = {getpid()};
  for (size_t previous_size = 0; previous_size != found.size();) {
    previous_size = found.size();
    for (const auto& [process, parent] : parent_of)
      if (found.contains(parent)) found.insert(process);
  }
  found.erase(getpid());
  return found;
}

/// Kills descendants until none is left, since a process may fork before it is killed.
void kill_all() {
  int status;
  for (pid_t ended = 0; ended >= 0 || errno == EINTR;) {
    for (const pid_t process : descendants()) kill(process, SIGKILL);
    ended = waitpid(-1, &status, 0);
    while (ended > 0) ended = waitpid(-1, &status, WNOHANG);
  }
}

/// Reaps ended children. Returns true and sets `status` if the program is one of them.
bool reap_children(pid_t program, int& status) {
  bool result = false;
  int ending;
  for (pid_t ended; (ended = waitpid(-1, &ending, WNOHANG)) > 0;) {
    if (ended != program) continue;
    status = ending;
    result = true;
  }
  return result;
}

/// Exits with the program's exit code or signal.
[[noreturn]] void exit_like(int status) {
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  const rlimit none = {};
  setrlimit(RLIMIT_CORE, &none);
  signal(WTERMSIG(status), SIG_DFL);
  kill(getpid(), WTERMSIG(status));
  _exit(128 + WTERMSIG(status));
}

/// Starts the program in its own process group, to be killed with this process. Sets `error` to errno on failure.
pid_t start(char** command, const sigset_t& signals, volatile int& error) {
  const pid_t program = vfork();  // the child shares our memory until execvp or _exit
  if (program != 0) return program;
  setpgid(0, 0);
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  execvp(command[0], command);
  error = errno;
  _exit(127);
}

}  // namespace

void supervise(char** command) {
  sigset_t child_signals;
  sigemptyset(&child_signals);
  sigaddset(&child_signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_signals, nullptr);
  const int child_events = signalfd(-1, &child_signals, SFD_CLOEXEC);
  if (child_events < 0 || fcntl(kCallerSocket, F_SETFD, FD_CLOEXEC) != 0 ||
      prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    stop("supervising a reward program");
  volatile int error = 0;
  const pid_t program = start(command, child_signals, error);
  const int result = program < 0 ? errno : error;
  if (write(kCallerSocket, &result, sizeof(result)) != sizeof(result) || result != 0) {
    kill_all();
    _exit(127);
  }
  close(STDIN_FILENO);  // only the program may hold these pipes, or the caller would not see their end
  close(STDOUT_FILENO);
  int status = SIGKILL;
  while (true) {
    pollfd files[2] = {{kCallerSocket, POLLIN, 0}, {child_events, POLLIN, 0}};
    if (poll(files, 2, -1) < 0) continue;
    signalfd_siginfo ignored;
    if (files[1].revents != 0 && read(child_events, &ignored, sizeof(ignored)) > 0 && reap_children(program, status))
      break;
    if (files[0].revents != 0) break;
  }
  kill_all();
  exit_like(status);
}

}  // namespace sandbox
