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

constexpr int kCaller = 3;

/// The parent of every process that this one can see.
std::map<pid_t, pid_t> parents() {
  std::map<pid_t, pid_t> result;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return result;
  while (const dirent* entry = readdir(folder)) {
    const pid_t process = std::atoi(entry->d_name);
    if (process <= 0) continue;
    FILE* file = fopen(("/proc/" + std::string(entry->d_name) + "/stat").c_str(), "re");
    if (file == nullptr) continue;
    char text[256] = {};  // PID (NAME) STATE PARENT: a name has at most 64 bytes, and may hold a bracket
    const size_t size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    const size_t bracket = std::string_view(text, size).rfind(')');
    int parent = 0;
    if (bracket != std::string_view::npos && sscanf(text + bracket, ") %*c %d", &parent) == 1) result[process] = parent;
  }
  closedir(folder);
  return result;
}

/// Everything that descends from this process.
std::set<pid_t> descendants() {
  const std::map<pid_t, pid_t> parent_of = parents();
  std::set<pid_t> found = {getpid()};
  for (size_t before = 0; before != found.size();) {
    before = found.size();
    for (const auto& [process, parent] : parent_of)
      if (found.contains(parent)) found.insert(process);
  }
  found.erase(getpid());
  return found;
}

/// Until nobody is left: who is killed leaves its children to us, and may have made another one just before.
void kill_all() {
  int status;
  for (pid_t ended = 0; ended >= 0 || errno == EINTR;) {
    for (const pid_t process : descendants()) kill(process, SIGKILL);
    ended = waitpid(-1, &status, 0);
    while (ended > 0) ended = waitpid(-1, &status, WNOHANG);
  }
}

/// Collects the dead; whether the program, whose status this leaves, is one of them.
bool has_ended(pid_t program, int& status) {
  bool result = false;
  int ending;
  for (pid_t ended; (ended = waitpid(-1, &ending, WNOHANG)) > 0;) {
    if (ended != program) continue;
    status = ending;
    result = true;
  }
  return result;
}

/// So that the caller sees what became of the program.
[[noreturn]] void end_like(int status) {
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  const rlimit none = {};
  setrlimit(RLIMIT_CORE, &none);
  signal(WTERMSIG(status), SIG_DFL);
  kill(getpid(), WTERMSIG(status));
  _exit(128 + WTERMSIG(status));
}

/// A group of its own, and death when this process is killed. The error number of a failure comes back by `error`.
pid_t start(char** command, const sigset_t& signals, volatile int& error) {
  const pid_t program = vfork();  // shares our memory until it is the program or has given up
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
  sigset_t dying;
  sigemptyset(&dying);
  sigaddset(&dying, SIGCHLD);
  sigprocmask(SIG_BLOCK, &dying, nullptr);
  const int deaths = signalfd(-1, &dying, SFD_CLOEXEC);
  if (deaths < 0 || fcntl(kCaller, F_SETFD, FD_CLOEXEC) != 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    stop("keeping hold of a reward program");
  volatile int error = 0;
  const pid_t program = start(command, dying, error);
  const int result = program < 0 ? errno : error;
  if (write(kCaller, &result, sizeof(result)) != sizeof(result) || result != 0) {
    kill_all();
    _exit(127);
  }
  close(STDIN_FILENO);  // the program's, and its end must be seen
  close(STDOUT_FILENO);
  int status = SIGKILL;
  while (true) {
    pollfd files[2] = {{kCaller, POLLIN, 0}, {deaths, POLLIN, 0}};
    if (poll(files, 2, -1) < 0) continue;
    signalfd_siginfo ignored;
    if (files[1].revents != 0 && read(deaths, &ignored, sizeof(ignored)) > 0 && has_ended(program, status)) break;
    if (files[0].revents != 0) break;
  }
  kill_all();
  end_like(status);
}

}  // namespace sandbox
