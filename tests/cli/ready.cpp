// Loaded before a program (LD_PRELOAD), this makes it one that stands ready: its libraries are loaded once, and each
// request on the socket READY_SOCKET is a call of its main() in a process forked off from there. A start of Keel is a
// fifth of a second of LibTorch's, and the tests of the command line make a thousand.
//
// A request: one message with the folder to work in and the arguments, each ended by a zero byte, and as descriptors
// the three standard streams and where the answer goes: the process id, and, once it has ended, its status and the most
// memory it held, as wait4 has them. Calls run side by side: each has a process of its own that waits for it.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Main = int (*)(int, char**, char**);
Main program_main;
int requests;

struct Request {
  std::vector<char> text;
  int descriptors[4];  // standard input, output, errors; the answer
};

bool receive(Request& request) {
  request.text.resize(1 << 20);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof request.descriptors)];
  iovec part{request.text.data(), request.text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t size = 0;
  while ((size = recvmsg(requests, &message, MSG_CMSG_CLOEXEC)) == -1 && errno == EINTR) {
  }
  const cmsghdr* descriptors = CMSG_FIRSTHDR(&message);
  if (size <= 0 || descriptors == nullptr) return false;
  std::memcpy(request.descriptors, CMSG_DATA(descriptors), sizeof request.descriptors);
  request.text.resize(static_cast<size_t>(size));
  return true;
}

/// Gives this process an event of its own in place of the one that the program made before its libraries, with which it
/// would tell all others that it was asked to stop.
void own_events() {
  char kind[32] = {};
  for (int i = 3; i < 64; ++i) {
    const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(i)).c_str(), kind, sizeof kind);
    if (std::string_view(kind, size > 0 ? static_cast<size_t>(size) : 0) != "anon_inode:[eventfd]") continue;
    const int fresh = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    dup3(fresh, i, O_CLOEXEC);
    close(fresh);
  }
}

[[noreturn]] void call(const Request& request, char* name, char** environment) {
  own_events();
  for (int i = 0; i < 3; ++i) dup2(request.descriptors[i], i);
  for (const int descriptor : request.descriptors) close(descriptor);
  std::vector<char> text = request.text;
  std::vector<char*> arguments{name};
  for (char* word = text.data() + std::strlen(text.data()) + 1; word < text.data() + text.size();
       word += std::strlen(word) + 1)
    arguments.push_back(word);
  const int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  if (chdir(text.data()) != 0) _exit(126);
  const int code = program_main(count, arguments.data(), environment);
  std::fflush(nullptr);
  _exit(code);  // LibTorch would forget its operators one by one
}

/// Calls the program, waits for it and answers.
[[noreturn]] void keep(const Request& request, char* name, char** environment) {
  close(requests);
  const pid_t child = fork();
  if (child == 0) call(request, name, environment);
  for (int i = 0; i < 3; ++i) close(request.descriptors[i]);
  const int answers = request.descriptors[3];
  if (write(answers, &child, sizeof child) < 0) _exit(1);
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) == -1 && errno == EINTR) {
  }
  const long answer[] = {status, usage.ru_maxrss};
  _exit(write(answers, answer, sizeof answer) < 0);
}

int serve(int, char** arguments, char** environment) {
  requests = std::atoi(std::getenv("READY_SOCKET"));
  unsetenv("READY_SOCKET");
  unsetenv("LD_PRELOAD");
  for (Request request; receive(request);) {
    if (fork() == 0) keep(request, arguments[0], environment);
    for (const int descriptor : request.descriptors) close(descriptor);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {  // those that have answered
    }
  }
  while (wait(nullptr) > 0) {
  }
  return 0;
}

}  // namespace

/// The libraries are ready when the C library's start is called, and the program's own objects when it calls main.
extern "C" int __libc_start_main(Main main, int count, char** arguments, void (*init)(), void (*fini)(), void (*end)(),
                                 void* stack) {
  program_main = main;
  const auto start = reinterpret_cast<decltype(&__libc_start_main)>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(serve, count, arguments, init, fini, end, stack);
}
