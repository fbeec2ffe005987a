// Loaded before a program (LD_PRELOAD), this makes it one that stands ready: its libraries are loaded once, and each
// request on the socket READY_SOCKET is a call of its main() in a process forked off from there. A start of Keel is a fifth of a
// second of LibTorch's, and the tests of the command line make a thousand.
//
// A request: one message with the folder to work in and the arguments, each ended by a zero byte, and the three standard
// streams as descriptors. The answer: the process id, and, once it has ended, its status and the most memory it held, as
// wait4 has them.

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using Main = int (*)(int, char**, char**);
Main program_main;
int requests;

struct Request {
  std::vector<char> text;
  int streams[3];
};

bool receive(Request& request) {
  request.text.resize(1 << 20);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof request.streams)];
  iovec part{request.text.data(), request.text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t size = 0;
  while ((size = recvmsg(requests, &message, MSG_CMSG_CLOEXEC)) == -1 && errno == EINTR) {
  }
  const cmsghdr* streams = CMSG_FIRSTHDR(&message);
  if (size <= 0 || streams == nullptr) return false;
  std::memcpy(request.streams, CMSG_DATA(streams), sizeof request.streams);
  request.text.resize(static_cast<size_t>(size));
  return true;
}

[[noreturn]] void call(const Request& request, char* name, char** environment) {
  for (int i = 0; i < 3; ++i) dup2(request.streams[i], i);
  for (const int stream : request.streams) close(stream);
  close(requests);
  std::vector<char> text = request.text;
  std::vector<char*> arguments{name};
  for (char* word = text.data() + std::strlen(text.data()) + 1; word < text.data() + text.size(); word += std::strlen(word) + 1)
    arguments.push_back(word);
  const int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  if (chdir(text.data()) != 0) _exit(126);
  const int code = program_main(count, arguments.data(), environment);
  std::fflush(nullptr);
  _exit(code);  // LibTorch would forget its operators one by one
}

int serve(int, char** arguments, char** environment) {
  requests = std::atoi(std::getenv("READY_SOCKET"));
  unsetenv("READY_SOCKET");
  unsetenv("LD_PRELOAD");
  for (Request request; receive(request);) {
    const pid_t child = fork();
    if (child == 0) call(request, arguments[0], environment);
    for (const int stream : request.streams) close(stream);
    if (write(requests, &child, sizeof child) < 0) return 1;
    int status = 0;
    rusage usage{};
    while (wait4(child, &status, 0, &usage) == -1 && errno == EINTR) {
    }
    const long answer[] = {status, usage.ru_maxrss};
    if (write(requests, answer, sizeof answer) < 0) return 1;
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
