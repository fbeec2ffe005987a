#include "sandbox/confine.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sandbox {
namespace {

constexpr char kOldRoot[] = "/old";  // the host's root while the new one is built
constexpr unsigned kFirstUser = 0x70000000;

void check(long result, const std::string& what) {
  if (result != 0) stop(what);
}

void write_text(const std::string& path, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) stop("writing " + path);
  close(file);
}

void make_folders(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) stop("mkdir " + part);
    if (end == std::string::npos) return;
  }
}

/// Mounts a folder or file at the same path as in the old root, read-only unless it is a device.
void mount_path(const VisiblePath& entry) {
  const std::string &path = entry.path, old = kOldRoot + path;
  if (!entry.link.empty()) return check(symlink(entry.link.c_str(), path.c_str()), "symlink " + path);
  struct stat status;
  if (stat(old.c_str(), &status) != 0) stop("stat " + path);
  if (S_ISDIR(status.st_mode)) {
    make_folders(path);
  } else {
    make_folders(path.substr(0, path.rfind('/')));
    const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (file < 0) stop("creating " + path);
    close(file);
  }
  check(mount(old.c_str(), path.c_str(), nullptr, MS_BIND | MS_REC, nullptr), "mounting " + path);
  mount_attr attributes = {};
  attributes.attr_set =
      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | (entry.is_device ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_NODEV);
  check(syscall(SYS_mount_setattr, AT_FDCWD, path.c_str(), AT_RECURSIVE, &attributes, sizeof(attributes)),
        "mount_setattr " + path);
}

/// The target of a link; empty for other files.
std::string read_link(const std::string& path) {
  char target[4096];
  const ssize_t length = readlink(path.c_str(), target, sizeof(target));
  return length < 0 ? "" : std::string(target, static_cast<size_t>(length));
}

bool is_below(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

void limit(int resource, rlim_t value, const char* what) {
  const rlimit soft_and_hard = {value, value};
  check(setrlimit(static_cast<__rlimit_resource>(resource), &soft_and_hard), what);
}

}  // namespace

void stop(const std::string& what) {
  const std::string line = "failed " + what + ": " + strerror(errno) + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  _exit(125);
}

void unshare_everything() {
  constexpr int kNamespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
  if (geteuid() == 0) {
    check(unshare(kNamespaces), "unshare (root, but perhaps in a container without this permission)");
    return;
  }
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  check(unshare(kNamespaces | CLONE_NEWUSER), "unshare (are user namespaces allowed here?)");
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", std::to_string(kUser) + " " + user + " 1");
  write_text("/proc/self/gid_map", std::to_string(kUser) + " " + group + " 1");
}

std::vector<VisiblePath> list_visible_paths(const std::vector<std::string>& folders) {
  std::vector<VisiblePath> paths = {{"/usr", ""}};
  for (const char* folder : {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"})
    if (access(folder, F_OK) == 0) paths.push_back({folder, read_link(folder)});  // links into /usr stay links
  for (const char* file : {"/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"})
    if (access(file, F_OK) == 0) paths.push_back({file, ""});
  for (const char* device : {"null", "zero", "full", "random", "urandom"})
    paths.push_back({std::string("/dev/") + device, "", true});
  paths.push_back({"/dev/shm", "/tmp"});  // for the semaphores of Python's multiprocessing
  std::vector<std::string> listed = {"/usr"};
  for (const std::string& folder : folders) {
    bool is_listed = false;
    for (const std::string& other : listed) is_listed = is_listed || is_below(folder, other);
    if (!is_listed) paths.push_back({folder, ""});
    listed.push_back(folder);
  }
  return paths;
}

void build_root(const std::vector<std::string>& folders, const Limits& limits) {
  const std::vector<VisiblePath> paths = list_visible_paths(folders);
  check(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "making mounts private");
  check(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m"), "mounting a new root");
  check(mkdir("/tmp/old", 0700), "mkdir");
  check(syscall(SYS_pivot_root, "/tmp", "/tmp/old"), "pivot_root");
  check(chdir("/"), "chdir");
  make_folders("/tmp");
  const std::string options = "mode=1777,nr_inodes=4096,size=" + std::to_string(limits.tmp_bytes);
  check(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()), "mounting /tmp");
  for (const VisiblePath& entry : paths) mount_path(entry);
  check(umount2(kOldRoot, MNT_DETACH), "leaving the old root");
  check(rmdir(kOldRoot), "rmdir");
  check(mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr),
        "making the root read-only");
}

void write_file(const char* path, int descriptor) {
  const int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) stop(path);
  char buffer[1 << 16];
  ssize_t count;
  while ((count = read(descriptor, buffer, sizeof(buffer))) > 0)
    if (write(file, buffer, static_cast<size_t>(count)) != count) stop(path);
  if (count < 0) stop(path);
  close(file);
  close(descriptor);
}

void drop_root_user(pid_t unique_pid) {
  check(setgroups(0, nullptr), "setgroups");
  const unsigned user = kFirstUser + static_cast<unsigned>(unique_pid);
  if (setresgid(user, user, user) != 0) check(setresgid(kUser, kUser, kUser), "setresgid");
  if (setresuid(user, user, user) != 0) check(setresuid(kUser, kUser, kUser), "setresuid");
}

void drop_privileges(const Limits& limits, pid_t unique_pid) {
  rlim_t processes = static_cast<rlim_t>(limits.processes);
  if (geteuid() != 0) processes += 2;  // two of our own processes have the same user
  if (geteuid() == 0) drop_root_user(unique_pid);
  check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
  limit(RLIMIT_CPU, static_cast<rlim_t>(limits.cpu_seconds), "RLIMIT_CPU");
  limit(RLIMIT_AS, static_cast<rlim_t>(limits.memory_bytes), "RLIMIT_AS");
  limit(RLIMIT_NPROC, processes, "RLIMIT_NPROC");
  limit(RLIMIT_FSIZE, static_cast<rlim_t>(limits.file_bytes), "RLIMIT_FSIZE");
  limit(RLIMIT_NOFILE, 64, "RLIMIT_NOFILE");
  limit(RLIMIT_CORE, 0, "RLIMIT_CORE");
  limit(RLIMIT_MEMLOCK, 0, "RLIMIT_MEMLOCK");
  limit(RLIMIT_MSGQUEUE, 0, "RLIMIT_MSGQUEUE");
  install_seccomp_filter();
}

}  // namespace sandbox
