#include "sandbox/bubblewrap.h"

#include <fcntl.h>
#include <unistd.h>

namespace sandbox {
namespace {

constexpr char kOurselves[] = "/keel-sandbox";  // path of this program in the sandbox

}  // namespace

void enter_by_bubblewrap(const std::string& bwrap, const std::vector<std::string>& folders, const Limits& limits,
                         int program, const std::vector<std::string>& arguments) {
  const int ourselves = open("/proc/self/exe", O_RDONLY);  // bwrap copies it
  if (ourselves < 0) stop("/proc/self/exe");
  std::vector<std::string> all = {bwrap};
  const auto add = [&](std::initializer_list<std::string> more) { all.insert(all.end(), more); };
  add({"--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"});
  // No --new-session: killing our process group must reach process 1. The program gets its own session.
  add({"--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"});
  add({"--uid", std::to_string(kUser), "--gid", std::to_string(kUser)});
  add({"--perms", "1777", "--size", std::to_string(limits.tmp_bytes), "--tmpfs", "/tmp"});
  for (const VisiblePath& entry : list_visible_paths(folders)) {
    if (!entry.link.empty())
      add({"--symlink", entry.link, entry.path});
    else
      add({entry.is_device ? "--dev-bind" : "--ro-bind", entry.path, entry.path});
  }
  add({"--perms", "0644", "--file", std::to_string(program), "/tmp/main.py"});
  add({"--perms", "0555", "--file", std::to_string(ourselves), kOurselves});
  add({"--remount-ro", "/", "--chdir", "/", kOurselves});
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> command;
  for (std::string& argument : all) command.push_back(argument.data());
  command.push_back(nullptr);
  char* environment[] = {nullptr};
  if (geteuid() == 0) leave_root(getpid());
  execve(bwrap.c_str(), command.data(), environment);
  stop(bwrap);
}

}  // namespace sandbox
