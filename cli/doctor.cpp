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

bool has_cuda_device() {
#ifdef KEEL_HAS_CUDA
  return at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0;
#else
  return false;
#endif
}

std::string describe_cuda() {
#ifdef KEEL_HAS_CUDA
  return has_cuda_device() ? "on (run.device=cuda)" : "built in, but no device is visible; check nvidia-smi";
#else
  return "off: this build has no CUDA kernels (it needs a CUDA build of torch and nvcc)";
#endif
}

/// Starts the sandbox of the code reward, as a run would.
std::string describe_sandbox() {
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
         ", device " + (has_cuda_device() ? "cuda" : "cpu");
}

CommandHandler add_doctor(CommandLine& line) {
  line.add("doctor", "Show the machine, libraries, devices, and which features are on or off");
  return [] {
    const int64_t page_count = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGE_SIZE);
    const auto disk = std::filesystem::space(".");
    std::printf("%s\n", version_line().c_str());
    std::printf("  cores        %u\n", std::thread::hardware_concurrency());
    std::printf("  CPU kernels  %s, %s\n", at::get_cpu_capability().c_str(),
                counted(use_threads(0), "thread").c_str());  // the default of run.threads
    std::printf("  memory       %.1f GiB\n",
                static_cast<double>(page_count) * static_cast<double>(page_bytes) / (1 << 30));
    std::printf("  disk free    %.1f GiB here\n", static_cast<double>(disk.available) / (1 << 30));
    std::printf("  CUDA         %s\n", describe_cuda().c_str());
    std::printf("  YAML         %s\n", can_read_yaml() ? "on" : "off: built without yaml-cpp; use JSON configurations");
    std::printf("  tokenizers   %s\n",
                text::has_unicode_tables() ? "of all kinds" : "of words only: built without PCRE2 and utf8proc");
    std::printf("  data files   %s\n", has_arrow() ? "JSON lines, JSON lists, CSV, gzip, zstd, Parquet"
                                                   : "JSON lines, JSON lists: built without Arrow");
    std::printf("  keel watch   %s\n", can_serve() ? "on" : "off: built without cpp-httplib; use keel report");
    std::printf("  sandbox      %s\n", describe_sandbox().c_str());
    return ExitCode::kDone;
  };
}

}  // namespace keel::cli
