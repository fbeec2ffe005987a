// keel-sandbox [cpu=SECONDS] [memory=BYTES] [processes=N] [file=BYTES] [tmp=BYTES] [show=FOLDER]... [bwrap=PATH]
//   -- PROGRAM ARGUMENT...
//
// Runs untrusted code. It gets the caller's standard input and output, and the data of descriptor 3 as /tmp/main.py.
// This program writes one line to standard error, which the code does not get: "exited CODE", "killed SIGNAL", or
// "failed WHY" if it was not started. Killing this process kills everything it started. bwrap=PATH: bubblewrap creates
// the namespaces and runs this program again in them, with inside=1.
//
// keel-sandbox supervise PROGRAM ARGUMENT... runs a trusted program without restrictions, and kills the processes that
// it leaves behind (supervisor.h).

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

constexpr int kProgramDescriptor = 3;

struct Options {
  sandbox::Limits limits;
  std::vector<std::string> folders;
  std::string bwrap;
  bool is_inside = false;
  char** command = nullptr;
};

Options read_arguments(char** argument) {
  Options options;
  for (; *argument != nullptr && std::string_view(*argument) != "--"; ++argument) {
    const std::string_view text = *argument;
    const size_t equal = text.find('=');
    const std::string_view key = text.substr(0, equal);
    const std::string value(equal == std::string_view::npos ? "" : text.substr(equal + 1));
    const long number = std::atol(value.c_str());
    errno = EINVAL;
    if (key == "show")
      options.folders.push_back(value);
    else if (key == "bwrap")
      options.bwrap = value;
    else if (number <= 0)
      sandbox::stop(std::string(text));
    else if (key == "inside")
      options.is_inside = true;
    else if (key == "cpu")
      options.limits.cpu_seconds = number;
    else if (key == "memory")
      options.limits.memory_bytes = number;
    else if (key == "processes")
      options.limits.processes = number;
    else if (key == "file")
      options.limits.file_bytes = number;
    else if (key == "tmp")
      options.limits.tmp_bytes = number;
    else
      sandbox::stop(std::string(text));
  }
  if (*argument == nullptr || argument[1] == nullptr) sandbox::stop("reading the command");
  options.command = argument + 1;
  return options;
}

/// Kills this process when its parent ends. `parent_pipe` is the read end of a pipe that the parent holds the write end
/// of.
void die_with_parent(int parent_pipe) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) sandbox::stop("PDEATHSIG");
  char byte;
  if (parent_pipe >= 0 && read(parent_pipe, &byte, 1) == 0)
    _exit(125);  // EOF: the parent has ended already; otherwise EAGAIN
}

[[noreturn]] void exec_program(const Options& options, pid_t unique_pid) {
  static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", home[] = "HOME=/tmp", language[] = "LANG=C.UTF-8",
              threads[] = "OMP_NUM_THREADS=1", blas[] = "OPENBLAS_NUM_THREADS=1";
  char* environment[] = {path, home, language, threads, blas, nullptr};
  setsid();
  const int null_device = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null_device < 0 || chdir("/tmp") != 0) sandbox::stop("/dev/null and /tmp");
  sandbox::drop_privileges(options.limits, unique_pid);
  const int report = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  if (report < 0 || close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) != 0) sandbox::stop("close_range");
  dup2(null_device, STDERR_FILENO);
  execve(options.command[0], options.command, environment);
  dup2(report, STDERR_FILENO);
  sandbox::stop(options.command[0]);
}

/// The init process of the PID namespace: starts the program, reaps processes and reports how the program ended. It is
/// a separate process, since the program could reset its parent-death signal, and most signals are ignored by
/// process 1.
[[noreturn]] void run_init(const Options& options, pid_t unique_pid, int parent_pipe) {
  die_with_parent(parent_pipe);
  const pid_t program = fork();
  if (program < 0) sandbox::stop("fork");
  if (program == 0) exec_program(options, unique_pid);
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
  std::exit(0);  // this kills all other processes of the namespace
}

/// The arguments for this program inside bubblewrap's namespaces.
std::vector<std::string> inside_arguments(char** argument) {
  std::vector<std::string> arguments = {"inside=1"};
  for (bool before_command = true; *argument != nullptr; ++argument) {
    const std::string_view text = *argument;
    before_command = before_command && text != "--";
    if (!before_command || !(text.starts_with("bwrap=") || text.starts_with("show="))) arguments.emplace_back(text);
  }
  return arguments;
}

}  // namespace

int main(int count, char** argv) {
  if (count > 2 && std::string_view(argv[1]) == "supervise") sandbox::supervise(argv + 2);
  const Options options = read_arguments(argv + 1);
  errno = EPERM;
  if (options.is_inside && getpid() != 1) sandbox::stop("bubblewrap created no PID namespace");
  if (options.is_inside) run_init(options, 1, -1);
  die_with_parent(-1);
  for (int signal = 1; signal < SIGRTMIN; ++signal)
    ::signal(signal, SIG_DFL);  // ignored signals would stay ignored after exec
  if (const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); file >= 0) {
    [[maybe_unused]] const ssize_t written = write(file, "1000", 4);  // the first to be killed when memory runs out
    close(file);
  }
  if (!options.bwrap.empty())
    sandbox::enter_by_bubblewrap(options.bwrap, options.folders, options.limits, kProgramDescriptor,
                                 inside_arguments(argv + 1));
  sandbox::unshare_everything();
  sandbox::build_root(options.folders, options.limits);
  sandbox::write_file("/tmp/main.py", kProgramDescriptor);
  int parent_pipe[2];
  if (pipe2(parent_pipe, O_CLOEXEC | O_NONBLOCK) != 0) sandbox::stop("pipe");
  const pid_t unique_pid = getpid(), child = fork();
  if (child < 0) sandbox::stop("fork");
  if (child == 0) {
    close(parent_pipe[1]);
    run_init(options, unique_pid, parent_pipe[0]);
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  return 0;
}
