// keel-sandbox [cpu=SECONDS] [memory=BYTES] [processes=N] [file=BYTES] [tmp=BYTES] [show=FOLDER]... [bwrap=PATH]
//   -- PROGRAM ARGUMENT...
//
// Runs a program that nobody has read. Standard input and output are the caller's; what can be read from descriptor 3
// is /tmp/main.py. On standard error, which the program does not get, one line says how it ended: "exited CODE",
// "killed SIGNAL", or "failed WHY" when it was not started. Killing this process kills everything it started.
// bwrap=PATH: the namespaces are made by that program, which then runs this one with inside=1 in place of it.
//
// keel-sandbox supervise PROGRAM ARGUMENT... runs a program of the user's own: nothing is kept from it, but whatever it
// starts ends with it (supervisor.h).

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "sandbox/bubblewrap.h"
#include "sandbox/confine.h"
#include "sandbox/supervisor.h"

namespace {

constexpr int kProgram = 3;

struct Order {
  sandbox::Limits limits;
  std::vector<std::string> folders;
  std::string bwrap;
  bool is_inside = false;
  char** command = nullptr;
};

Order read_arguments(char** argument) {
  Order order;
  for (; *argument != nullptr && std::string_view(*argument) != "--"; ++argument) {
    const std::string_view text = *argument;
    const size_t equal = text.find('=');
    const std::string_view key = text.substr(0, equal);
    const std::string value(equal == std::string_view::npos ? "" : text.substr(equal + 1));
    const long number = std::atol(value.c_str());
    errno = EINVAL;
    if (key == "show")
      order.folders.push_back(value);
    else if (key == "bwrap")
      order.bwrap = value;
    else if (number <= 0)
      sandbox::stop(std::string(text));
    else if (key == "inside")
      order.is_inside = true;
    else if (key == "cpu")
      order.limits.cpu_seconds = number;
    else if (key == "memory")
      order.limits.memory_bytes = number;
    else if (key == "processes")
      order.limits.processes = number;
    else if (key == "file")
      order.limits.file_bytes = number;
    else if (key == "tmp")
      order.limits.tmp_bytes = number;
    else
      sandbox::stop(std::string(text));
  }
  if (*argument == nullptr || argument[1] == nullptr) sandbox::stop("reading the command");
  order.command = argument + 1;
  return order;
}

/// Ends this process when its parent ends. `alive` is the reading end of a pipe that only the parent can write to.
void die_with_parent(int alive) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) sandbox::stop("PDEATHSIG");
  char byte;
  if (alive >= 0 && read(alive, &byte, 1) == 0) _exit(125);  // it ended before we asked; else EAGAIN
}

[[noreturn]] void become_the_program(const Order& order, pid_t unique) {
  static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", home[] = "HOME=/tmp", language[] = "LANG=C.UTF-8",
              threads[] = "OMP_NUM_THREADS=1", blas[] = "OPENBLAS_NUM_THREADS=1";
  char* environment[] = {path, home, language, threads, blas, nullptr};
  setsid();
  const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing < 0 || chdir("/tmp") != 0) sandbox::stop("/dev/null and /tmp");
  sandbox::drop_rights(order.limits, unique);
  const int report = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  if (report < 0 || close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) != 0) sandbox::stop("close_range");
  dup2(nothing, STDERR_FILENO);
  execve(order.command[0], order.command, environment);
  dup2(report, STDERR_FILENO);
  sandbox::stop(order.command[0]);
}

/// Process 1 of the new world: starts the program, collects the dead and says how the program ended. It is not the
/// program itself, because a process can take back its wish to die with its parent, and signals do little to process 1.
[[noreturn]] void rule_the_world(const Order& order, pid_t unique, int alive) {
  die_with_parent(alive);
  const pid_t program = fork();
  if (program < 0) sandbox::stop("fork");
  if (program == 0) become_the_program(order, unique);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  close(STDIN_FILENO);
  close(STDOUT_FILENO);
  int status = 0;
  for (pid_t ended = 0; ended != program;)
    if ((ended = wait(&status)) < 0 && errno != EINTR) sandbox::stop("wait");
  if (WIFEXITED(status))
    std::fprintf(stderr, "exited %d\n", WEXITSTATUS(status));
  else
    std::fprintf(stderr, "killed %d\n", WTERMSIG(status));
  std::exit(0);  // and with it goes everything that is left of its world
}

/// Our own arguments for the same process inside bubblewrap's namespaces.
std::vector<std::string> inside_arguments(char** argument) {
  std::vector<std::string> words = {"inside=1"};
  for (bool options = true; *argument != nullptr; ++argument) {
    const std::string_view text = *argument;
    options = options && text != "--";
    if (!options || !(text.starts_with("bwrap=") || text.starts_with("show="))) words.emplace_back(text);
  }
  return words;
}

}  // namespace

int main(int count, char** argv) {
  if (count > 2 && std::string_view(argv[1]) == "supervise") sandbox::supervise(argv + 2);
  const Order order = read_arguments(argv + 1);
  errno = EPERM;
  if (order.is_inside && getpid() != 1) sandbox::stop("bubblewrap gave no world of its own");
  if (order.is_inside) rule_the_world(order, 1, -1);
  die_with_parent(-1);
  for (int signal = 1; signal < SIGRTMIN; ++signal) ::signal(signal, SIG_DFL);  // what was ignored would stay so
  if (const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); file >= 0) {
    [[maybe_unused]] const ssize_t written = write(file, "1000", 4);  // the first to go when memory runs out
    close(file);
  }
  if (!order.bwrap.empty())
    sandbox::enter_by_bubblewrap(order.bwrap, order.folders, order.limits, kProgram, inside_arguments(argv + 1));
  sandbox::unshare_everything();
  sandbox::build_root(order.folders, order.limits);
  sandbox::write_file("/tmp/main.py", kProgram);
  int alive[2];
  if (pipe2(alive, O_CLOEXEC | O_NONBLOCK) != 0) sandbox::stop("pipe");
  const pid_t unique = getpid(), child = fork();
  if (child < 0) sandbox::stop("fork");
  if (child == 0) {
    close(alive[1]);
    rule_the_world(order, unique, alive[0]);
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  return 0;
}
