#include "keel/reward/programs/embedded.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "keel/core/embed.h"
#include "keel/core/error.h"

// The build sets KEEL_REWARD_FOLDER and KEEL_SANDBOX_FILE.
KEEL_EMBED(keel_worker, KEEL_REWARD_FOLDER "/worker.py");
KEEL_EMBED(keel_code_values, KEEL_REWARD_FOLDER "/code_values.py");
KEEL_EMBED(keel_code_program, KEEL_REWARD_FOLDER "/code_program.py");
KEEL_EMBED(keel_code_names, KEEL_REWARD_FOLDER "/code_names.py");
KEEL_EMBED(keel_code_proxies, KEEL_REWARD_FOLDER "/code_proxies.py");
KEEL_EMBED(keel_code_test_runner, KEEL_REWARD_FOLDER "/code_test_runner.py");
KEEL_EMBED(keel_sandbox, KEEL_SANDBOX_FILE);

namespace keel {

std::string_view python_worker() { return {keel_worker_begin, keel_worker_end}; }
std::string code_program() {
  return std::string(keel_code_values_begin, keel_code_values_end) +
         std::string(keel_code_program_begin, keel_code_program_end);
}
std::string code_test_runner() {
  return std::string(keel_code_values_begin, keel_code_values_end) +
         std::string(keel_code_names_begin, keel_code_names_end) +
         std::string(keel_code_proxies_begin, keel_code_proxies_end) +
         std::string(keel_code_test_runner_begin, keel_code_test_runner_end);
}
std::string_view sandbox_program() { return {keel_sandbox_begin, keel_sandbox_end}; }

FileHandle create_memory_file(const char* name, std::string_view bytes) {
  constexpr unsigned kExecutable = 0x10;  // MFD_EXEC; kernels before 6.3 reject it
  FileHandle file(memfd_create(name, MFD_CLOEXEC | kExecutable));
  if (!file.is_open()) file = FileHandle(memfd_create(name, MFD_CLOEXEC));
  bool ok = file.is_open();
  for (size_t done = 0; ok && done < bytes.size();) {
    const ssize_t count = write(file.get(), bytes.data() + done, bytes.size() - done);
    ok = count > 0;
    done += ok ? static_cast<size_t>(count) : 0;
  }
  if (!ok || lseek(file.get(), 0, SEEK_SET) != 0)
    fail(ExitCode::kHealthGuard, "cannot create a memory file for a reward program: ", strerror(errno));
  return file;
}

std::string path_for_children(const FileHandle& file) {
  if (access("/proc/self/fd", F_OK) != 0)
    fail(ExitCode::kBadConfiguration, "the rewards code, python: and exec: need /proc, which is not mounted. ",
         "Mount it (mount -t proc proc /proc), or use rewards without programs");
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file.get());
}

}  // namespace keel
