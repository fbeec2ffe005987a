#include "sandbox/bubblewrap.h"

#include <fcntl.h>
#include <unistd.h>

namespace sandbox {
namespace {

constexpr char kOwnPath[] = "/keel-sandbox";  // path of this program in the sandbox

}  // namespace

void enter_by_bubblewrap(const std::string& bwrap, const std::vector<std::string>& folders, const Limits& limits,
                         int program, const std::vector<std::string>& arguments) {
  const int own_program = open("/proc/self/exe", O_RDONLY);  // bwrap copies it
  if (own_program < 0) stop("/proc/self/exe");
  std::vector<std::string> command = {bwrap};
  const auto add = [&](std::initializer_list<std::string> words) { command.insert(command.end(), words); };
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
  add({"--perms", "0555", "--file", std::to_string(own_program), kOwnPath});
  add({"--remount-ro", "/", "--chdir", "/", kOwnPath});
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);
  char* environment[] = {nullptr};
  if (geteuid() == 0) drop_root_user(getpid());
  execve(bwrap.c_str(), argv.data(), environment);
  stop(bwrap);
}

}  // namespace sandbox
