#include "keel/reward/programs/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "keel/core/error.h"
#include "keel/core/interrupt.h"
#include "keel/reward/programs/embedded.h"
#include "keel/reward/programs/orphans.h"

extern char** environ;

namespace keel {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  FileHandle read, write;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    fail(ExitCode::kHealthGuard, "cannot create a pipe to a reward program: ", strerror(errno));
  return {FileHandle(ends[0]), FileHandle(ends[1])};
}

void set_non_blocking(const FileHandle& file) { fcntl(file.get(), F_SETFL, fcntl(file.get(), F_GETFL) | O_NONBLOCK); }

/// Blocks SIGPIPE, so that writing to a program that has exited returns an error.
class SigpipeBlocker {
 public:
  SigpipeBlocker() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlocker() {
    const timespec no_wait = {};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &no_wait);  // discards a SIGPIPE of this scope
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocker(const SigpipeBlocker&) = delete;
  SigpipeBlocker& operator=(const SigpipeBlocker&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

/// Reads available bytes; closes the file at the end of the stream.
void read_available(FileHandle& file, std::string& to) {
  char buffer[1 << 16];
  const ssize_t count = read(file.get(), buffer, sizeof(buffer));
  if (count > 0) to.append(buffer, static_cast<size_t>(count));
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) file.close();
}

/// Writes what fits into the pipe; closes the file if the reader is gone.
void write_available(FileHandle& file, std::string_view& input) {
  const ssize_t count = write(file.get(), input.data(), std::min(input.size(), size_t{1} << 16));
  if (count > 0) input.remove_prefix(static_cast<size_t>(count));
  if (count < 0 && errno != EAGAIN && errno != EINTR) file.close();
}

[[noreturn]] void fail_to_start(const std::string& program, int error) {
  fail(ExitCode::kBadConfiguration, "\"", program, "\" cannot be started: ", strerror(error),
       ". Check its path and that it is executable");
}

pid_t spawn(const SpawnRequest& request, const Pipe& input, const Pipe& output, const Pipe& error_pipe) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.read.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.write.get(), STDOUT_FILENO);
  if (request.capture_stderr) posix_spawn_file_actions_adddup2(&actions, error_pipe.write.get(), STDERR_FILENO);
  if (request.extra_input >= 0) posix_spawn_file_actions_adddup2(&actions, request.extra_input, 3);
#if __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&actions, request.extra_input >= 0 ? 4 : 3);
#endif
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t set;
  sigfillset(&set);
  posix_spawnattr_setsigdefault(&attributes, &set);
  sigemptyset(&set);
  posix_spawnattr_setsigmask(&attributes, &set);

  std::vector<char*> arguments;
  for (const std::string& word : request.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int error = 0;
  const pid_t pid = start_child([&] {
    pid_t child = -1;
    error = posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
    return error == 0 ? child : -1;
  });
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) fail_to_start(request.command[0], error);
  return pid;
}

/// Starts the program below a supervisor; closing `supervisor` ends both.
pid_t spawn_supervised(SpawnRequest request, const Pipe& input, const Pipe& output, const Pipe& error_pipe,
                       FileHandle& supervisor) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    fail(ExitCode::kHealthGuard, "cannot create a socket to a reward program: ", strerror(errno));
  FileHandle parent_end(ends[0]), child_end(ends[1]);
  const FileHandle program = create_memory_file("keel-sandbox", sandbox_program());
  const std::string name = request.command[0];
  request.command.insert(request.command.begin(), {path_for_children(program), "supervise"});
  request.extra_input = child_end.get();
  become_subreaper();
  const pid_t pid = spawn(request, input, output, error_pipe);
  child_end.close();
  int error = 0;
  ssize_t count;
  while ((count = read(parent_end.get(), &error, sizeof(error))) < 0 && errno == EINTR) continue;
  if (count != sizeof(error)) error = ECHILD;
  if (error != 0) {
    parent_end.close();
    reap_child(pid);
    fail_to_start(name, error);
  }
  supervisor = std::move(parent_end);
  return pid;
}

}  // namespace

Deadline seconds_from_now(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, 1000 * 1000));
}

ChildProcess::ChildProcess(const SpawnRequest& request) {
  Pipe input = make_pipe(), output = make_pipe(), error_pipe;
  if (request.capture_stderr) error_pipe = make_pipe();
  pid_ = request.supervised ? spawn_supervised(request, input, output, error_pipe, supervisor_)
                            : spawn(request, input, output, error_pipe);
  input_ = std::move(input.write);
  output_pipe_ = std::move(output.read);
  stderr_pipe_ = std::move(error_pipe.read);
  for (const FileHandle* file : {&input_, &output_pipe_, &stderr_pipe_})
    if (file->is_open()) set_non_blocking(*file);
}

ChildProcess::~ChildProcess() {
  input_.close();
  for (int i = 0; i < 50 && !has_ended(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(4));
  kill();
}

ExchangeResult ChildProcess::exchange(const ExchangeRequest& request) {
  const SigpipeBlocker guard;
  std::string_view input = request.input;
  while (true) {
    if (request.close_input && input.empty()) input_.close();
    const bool sent = input.empty() || !input_.is_open();
    if (!request.close_input && sent && output_.find('\n') != std::string::npos) return ExchangeResult::kLine;
    if (!output_pipe_.is_open() && !stderr_pipe_.is_open()) return ExchangeResult::kEnd;
    if (output_.size() > request.max_output || stderr_output_.size() > request.max_output)
      return ExchangeResult::kTooLong;
    pollfd files[4] = {{sent ? -1 : input_.get(), POLLOUT, 0},
                       {output_pipe_.get(), POLLIN, 0},
                       {stderr_pipe_.get(), POLLIN, 0},
                       {supervisor_.get(), 0, 0}};  // poll ignores closed files (-1)
    const int timeout_ms = milliseconds_until(request.deadline);
    if ((request.interruptible ? poll_unless_stopped(files, timeout_ms) : poll(files, 4, timeout_ms)) <= 0) {
      if (Clock::now() >= request.deadline) return ExchangeResult::kTimeout;
      continue;
    }
    if (files[3].revents != 0 && files[1].revents == 0)
      return ExchangeResult::kEnd;  // the supervisor is gone and the output is read
    if (files[0].revents != 0) write_available(input_, input);
    if (files[1].revents != 0) read_available(output_pipe_, output_);
    if (files[2].revents != 0) read_available(stderr_pipe_, stderr_output_);
  }
}

bool ChildProcess::has_ended() const {
  siginfo_t info = {};
  return reaped_ ||
         (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0);
}

void ChildProcess::kill() {
  if (reaped_) return;
  if (supervisor_.is_open()) {
    shutdown(supervisor_.get(), SHUT_RDWR);  // works even if another child has a copy
    for (int i = 0; i < 2500 && !has_ended(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    supervisor_.close();
  }
  ::kill(-pid_, SIGKILL);  // before reaping the leader, so that its pid cannot be reused
  reap_child(pid_);
  reaped_ = true;
  kill_all_orphans();
  input_.close();
  // Waits until all holders of the output pipe are dead.
  const Deadline deadline = seconds_from_now(2);
  char buffer[1 << 16];
  while (output_pipe_.is_open() && Clock::now() < deadline) {
    pollfd file = {output_pipe_.get(), POLLIN, 0};
    if (poll(&file, 1, milliseconds_until(deadline)) > 0 && read(output_pipe_.get(), buffer, sizeof(buffer)) <= 0)
      break;
  }
  output_pipe_.close();
  stderr_pipe_.close();
}

std::string ChildProcess::exit_status() const {
  siginfo_t info = {};
  // The output may close shortly before the process ends, on a busy machine by seconds.
  for (int i = 0; i < 2500; ++i) {
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return "";
    if (info.si_pid != 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (info.si_pid == 0) return "";
  if (info.si_code == CLD_EXITED) return "exit code " + std::to_string(info.si_status);
  return "signal " + std::to_string(info.si_status) + " (" + strsignal(info.si_status) + ")";
}

}  // namespace keel
