#include "sandbox/bubblewrap.h"

#include <fcntl.h>
#include <unistd.h>

namespace sandbox {
namespace {

constexpr char kOurselves[] = "/keel-sandbox";  // our place in the new world

}  // namespace

void enter_by_bubblewrap(const std::string& bwrap, const std::vector<std::string>& folders, const Limits& limits,
                         int program, const std::vector<std::string>& arguments) {
  const int ourselves = open("/proc/self/exe", O_RDONLY);  // bwrap copies it
  if (ourselves < 0) stop("/proc/self/exe");
  std::vector<std::string> words = {bwrap};
  const auto add = [&](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
  add({"--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"});
  // No session of its own: whoever kills our group then reaches process 1 at any moment. The program gets one.
  add({"--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"});
  add({"--uid", std::to_string(kUser), "--gid", std::to_string(kUser)});
  add({"--perms", "1777", "--size", std::to_string(limits.tmp_bytes), "--tmpfs", "/tmp"});
  for (const Shown& entry : what_to_show(folders)) {
    if (!entry.link.empty())
      add({"--symlink", entry.link, entry.path});
    else
      add({entry.is_device ? "--dev-bind" : "--ro-bind", entry.path, entry.path});
  }
  add({"--perms", "0644", "--file", std::to_string(program), "/tmp/main.py"});
  add({"--perms", "0555", "--file", std::to_string(ourselves), kOurselves});
  add({"--remount-ro", "/", "--chdir", "/", kOurselves});
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> command;
  for (std::string& word : words) command.push_back(word.data());
  command.push_back(nullptr);
  char* environment[] = {nullptr};
  if (geteuid() == 0) leave_root(getpid());
  execve(bwrap.c_str(), command.data(), environment);
  stop(bwrap);
}

}  // namespace sandbox
