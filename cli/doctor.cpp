#include <ATen/Context.h>
#include <ATen/Version.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <keel_commit.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <thread>

#include "cli/commands.h"
#include "cli/run_description.h"
#include "keel/core/console.h"
#include "keel/core/options/read_config.h"
#include "keel/core/tensor/device.h"
#include "keel/data/rows/data_format.h"
#include "keel/reward/programs/sandbox.h"
#include "keel/watch/http_server.h"
#include "libs/hftext/characters/unicode.h"

namespace keel::cli {
namespace {

bool cuda_usable() {
#ifdef KEEL_HAS_CUDA
  return at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0;
#else
  return false;
#endif
}

std::string cuda_state() {
#ifdef KEEL_HAS_CUDA
  return cuda_usable() ? "on (run.device=cuda)" : "built in, but no device is visible; check nvidia-smi";
#else
  return "off: this build has no CUDA kernels (it needs a CUDA build of torch and nvcc)";
#endif
}

/// The code reward's sandbox is tried out, as a run would.
std::string sandbox_state() {
  try {
    const PythonSandbox sandbox("python3", {});
    return "works, by " + sandbox.backend() + " (the reward `code`)";
  } catch (const Error& error) {
    return std::string("off: ") + error.what();
  }
}

}  // namespace

std::string version_line() {
  return std::string("keel ") + KEEL_VERSION + " (commit " + KEEL_COMMIT + "), LibTorch " + TORCH_VERSION +
         ", device " + (cuda_usable() ? "cuda" : "cpu");
}

CommandHandler add_doctor(CommandLine& line) {
  line.add("doctor", "Machine, libraries, devices, what is on and off and why");
  return [] {
    const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    const auto space = std::filesystem::space(".");
    std::printf("%s\n", version_line().c_str());
    std::printf("  cores        %u\n", std::thread::hardware_concurrency());
    std::printf("  CPU kernels  %s, %s\n", at::get_cpu_capability().c_str(),
                counted(use_threads(0), "thread").c_str());  // as a run has it, where run.threads is not set
    std::printf("  memory       %.1f GiB\n", static_cast<double>(pages) * static_cast<double>(page) / (1 << 30));
    std::printf("  disk free    %.1f GiB here\n", static_cast<double>(space.available) / (1 << 30));
    std::printf("  CUDA         %s\n", cuda_state().c_str());
    std::printf("  YAML         %s\n", can_read_yaml() ? "on" : "off: built without yaml-cpp; configurations are JSON");
    std::printf("  tokenizers   %s\n",
                text::has_unicode_tables() ? "of all kinds" : "of words only: built without PCRE2 and utf8proc");
    std::printf("  data files   %s\n", has_arrow() ? "JSON lines, JSON lists, CSV, gzip, zstd, Parquet"
                                                   : "JSON lines, JSON lists; no others: built without Arrow");
    std::printf("  keel watch   %s\n",
                can_serve() ? "on" : "off: built without cpp-httplib; keel report writes the page");
    std::printf("  sandbox      %s\n", sandbox_state().c_str());
    return ExitCode::kDone;
  };
}

}  // namespace keel::cli
