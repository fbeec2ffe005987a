#pragma once

// What stands between a program that nobody has read and the machine. Each step either holds or ends the process with
// a line on standard error: there is no running with half of it.

#include <sys/types.h>

#include <string>
#include <vector>

namespace sandbox {

/// Ends the process, with "failed WHAT: the system's word" on standard error.
[[noreturn]] void stop(const std::string& what);

struct Limits {
  long cpu_seconds = 10;
  long memory_bytes = 512L << 20;  // of addresses, for each process
  long processes = 8;
  long file_bytes = 16L << 20;
  long tmp_bytes = 64L << 20;
};

/// Who the program is: a user who owns nothing.
constexpr unsigned kUser = 65534;

/// Something of the machine that the program can see, at its own place: a link, else a file or a folder with everything
/// below it.
struct Shown {
  std::string path, link;  // what it links to; empty: it is no link
  bool is_device = false;  // else nothing can be written there
};

/// The system's folders, five devices and `folders`.
std::vector<Shown> what_to_show(const std::vector<std::string>& folders);

/// Leaves the machine's users (unless we are root), mounts, processes, network, messages and names behind. The next
/// child is process 1 of a world of its own, and everything in that world ends with it.
void unshare_everything();

/// A root of read-only system folders and `folders`, a /dev of five devices, an empty /tmp, and nothing else: no /proc,
/// no home, no data.
void build_root(const std::vector<std::string>& folders, const Limits& limits);

/// Copies what can be read from `descriptor` into a new file.
void write_file(const char* path, int descriptor);

/// Root becomes a user of whom there is no other process: the number of processes is counted by user, and root's is not
/// limited at all. Where this machine's root may not become it (in a container with few users), it is kUser.
void leave_root(pid_t unique);

/// For the program, last of all before exec: another user, no way to gain rights, limits, and the system calls that
/// matter only to break out are gone.
void drop_rights(const Limits& limits, pid_t unique);

/// The filter of system calls (seccomp.cpp).
void forbid_system_calls();

}  // namespace sandbox
