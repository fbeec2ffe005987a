#pragma once

// Isolation of untrusted code. Each step either succeeds or ends the process with a line on standard error, so the code
// never runs with partial isolation.

#include <sys/types.h>

#include <string>
#include <vector>

namespace sandbox {

/// Ends the process with "failed WHAT: strerror" on standard error.
[[noreturn]] void stop(const std::string& what);

struct Limits {
  long cpu_seconds = 10;
  long memory_bytes = 512L << 20;  // address space, per process
  long processes = 8;
  long file_bytes = 16L << 20;
  long tmp_bytes = 64L << 20;
};

/// The user id of the program: nobody.
constexpr unsigned kUser = 65534;

/// A path of the host that the program can access: a link, a file, or a folder with its contents.
struct VisiblePath {
  std::string path, link;  // target of the link; empty: not a link
  bool is_device = false;  // writable; others are read-only
};

/// The system folders, five devices and `folders`.
std::vector<VisiblePath> list_visible_paths(const std::vector<std::string>& folders);

/// Creates namespaces for users (unless root), mounts, processes, network, IPC and host names. The next child is
/// process 1 of the PID namespace; all processes in it are killed when that ends.
void unshare_everything();

/// Builds a root file system with only read-only system folders and `folders`, five devices and an empty /tmp.
void build_root(const std::vector<std::string>& folders, const Limits& limits);

/// Copies the data of `descriptor` into a new file.
void write_file(const char* path, int descriptor);

/// Changes root to a user id that no other process has, since RLIMIT_NPROC counts per user and does not apply to root.
/// Falls back to kUser if the id is not mapped (in some containers).
void drop_root_user(pid_t unique_pid);

/// The last step before exec: changes the user, disables privilege gains, sets limits, and blocks dangerous system
/// calls.
void drop_privileges(const Limits& limits, pid_t unique_pid);

/// Installs the seccomp filter (seccomp.cpp).
void install_seccomp_filter();

}  // namespace sandbox
