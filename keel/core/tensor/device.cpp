#include "keel/core/tensor/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef KEEL_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "keel/core/error.h"

namespace keel {

namespace {

/// Keeps freed tensors of up to 32 MiB (glibc's maximum) in the process. By default glibc returns them to the system,
/// and the next tensor of that size needs new, zeroed pages: up to four times the cost of an elementwise operation.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
}

/// Returns the number after a name ("MemAvailable:") in a file of lines "NAME NUMBER", or -1.
int64_t number_in_file(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string found;
  int64_t number = 0;
  while (file >> found) {
    if (found == name) return file >> number ? number : -1;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return -1;
}

/// Files of a control group that limits the memory of this process.
struct MemoryGroup {
  std::string limit, used, statistics, page_cache_key;
};

/// The control groups of this process and their parents, of version 2 ("0::/a/b") and 1 ("9:memory:/a/b").
std::vector<MemoryGroup> memory_groups() {
  std::vector<MemoryGroup> groups;
  const auto add = [&](bool version_1, std::string path) {
    const std::string root = version_1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    while (true) {
      const std::string folder = root + (path == "/" ? "" : path);
      groups.push_back(version_1 ? MemoryGroup{folder + "/memory.limit_in_bytes", folder + "/memory.usage_in_bytes",
                                               folder + "/memory.stat", "total_inactive_file"}
                                 : MemoryGroup{folder + "/memory.max", folder + "/memory.current",
                                               folder + "/memory.stat", "inactive_file"});
      if (path == "/" || path.empty()) return;
      path = path.substr(0, std::max<size_t>(path.rfind('/'), 1));
    }
  };
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t names = line.find(':'), path = line.find(':', names + 1);
    if (path == std::string::npos) continue;
    const std::string controllers = line.substr(names + 1, path - names - 1);
    if (controllers.empty() || controllers == "memory") add(!controllers.empty(), line.substr(path + 1));
  }
  // In a container the files of its own group are at the root, whatever its path is outside.
  add(false, "/"), add(true, "/");
  return groups;
}

/// Stops oneDNN on ARM from writing /tmp/perf-PID.map files for profilers, which are never removed. To profile, set one
/// of the two variables.
void disable_profiler_files() {
  if (std::getenv("DNNL_JIT_PROFILE") == nullptr) setenv("ONEDNN_JIT_PROFILE", "0", /*overwrite=*/0);
}

#ifdef KEEL_HAS_CUDA
/// Lets the allocator of a GPU grow its segments. A step alternates between KV cache and activations of other sizes,
/// and fixed segments took up to 1.4 times the memory of the tensors.
void use_expandable_segments() {
  if (std::getenv("PYTORCH_CUDA_ALLOC_CONF") == nullptr && std::getenv("PYTORCH_ALLOC_CONF") == nullptr)
    c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
}
#endif

c10::CachingDeviceAllocator::DeviceStats gpu_memory_statistics(at::Device device) {
  return c10::getDeviceAllocator(at::kCUDA)->getDeviceStats(device.index());
}

}  // namespace

bool has_gpu() {
#ifdef KEEL_HAS_CUDA
  return at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0;
#else
  return false;
#endif
}

bool is_gpu_build() {
#ifdef KEEL_HAS_CUDA
  return true;
#else
  return false;
#endif
}

at::Device open_device(const std::string& name, const std::string& setting) {
  keep_freed_memory();
  disable_profiler_files();
  if (name == "cpu" || (name == "auto" && !has_gpu())) return at::Device(at::kCPU);
#ifdef KEEL_HAS_CUDA
  if (!has_gpu())
    fail(ExitCode::kBadConfiguration, setting, " is ", name, ", but CUDA finds no device; check nvidia-smi, or set ",
         setting, "=cpu");
  use_expandable_segments();
  at::globalContext().lazyInitDevice(at::kCUDA);
  return at::Device(at::kCUDA, 0);
#else
  fail(ExitCode::kBadConfiguration, setting, " is ", name,
       ", but this build is for the CPU only; `keel doctor` says why. ", "Set ", setting,
       "=cpu, or build with a CUDA torch and nvcc");
#endif
}

int64_t use_threads(int64_t threads) {
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  at::set_num_threads(static_cast<int>(threads > 0 ? threads : cores));
  return at::get_num_threads();
}

void use_deterministic_reductions(bool enabled) {
  at::globalContext().setDeterministicAlgorithms(enabled, /*warn_only=*/false);
  // Does not fill new tensors, which would only cost time.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  if (enabled) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // cuBLAS requires it for determinism
}

void synchronize(at::Device device) {
  if (!device.is_cuda()) return;
  const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
  // Synchronizing the whole device would break another thread's graph capture.
  cuda.synchronizeStream(cuda.getStream(device));
}

Tensor to_device_async(const Tensor& tensor, at::Device device) {
  return device.is_cuda() ? tensor.pin_memory().to(device, /*non_blocking=*/true) : tensor;
}

int64_t peak_memory_bytes(at::Device device) {
  if (device.is_cuda()) return gpu_memory_statistics(device).allocated_bytes[0].peak;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

int64_t peak_reserved_bytes(at::Device device) {
  return kCudaContextBytes + gpu_memory_statistics(device).reserved_bytes[0].peak;
}

int64_t machine_memory_bytes() {
  int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  for (const MemoryGroup& group : memory_groups()) {
    std::ifstream file(group.limit);
    if (int64_t limit = 0; file >> limit && limit > 0) bytes = std::min(bytes, limit);  // "max" is not parsed
  }
  return bytes;
}

int64_t resident_memory_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  return file >> total >> resident ? resident * sysconf(_SC_PAGE_SIZE) : 0;
}

int64_t available_memory_bytes() {
  const int64_t machine = number_in_file("/proc/meminfo", "MemAvailable:");
  int64_t bytes = machine >= 0 ? machine * 1024 : machine_memory_bytes();
  for (const MemoryGroup& group : memory_groups()) {
    int64_t limit = 0, used = 0;
    if (!(std::ifstream(group.limit) >> limit) || !(std::ifstream(group.used) >> used)) continue;
    bytes = std::min(
        bytes, limit - used + std::max<int64_t>(number_in_file(group.statistics.c_str(), group.page_cache_key), 0));
  }
  return std::max<int64_t>(bytes, 0);
}

int64_t usable_memory_bytes([[maybe_unused]] at::Device device) {
#ifdef KEEL_HAS_CUDA
  if (device.is_cuda()) {
    size_t free = 0, total = 0;
    if (const cudaError_t error = cudaMemGetInfo(&free, &total); error != cudaSuccess)
      fail(ExitCode::kBadConfiguration, "run.device: ", describe_device(device),
           " cannot be used: ", cudaGetErrorString(error),
           ". Fix: free it (nvidia-smi lists the programs on it), or set run.device=cpu");
    return static_cast<int64_t>(free) + kCudaContextBytes + gpu_memory_statistics(device).reserved_bytes[0].current;
  }
#endif
  return std::min(available_memory_bytes() + resident_memory_bytes(), machine_memory_bytes());
}

bool is_out_of_memory(const std::exception& error) {
  // LibTorch has an exception type for a full GPU but not for the CPU, where the message depends on the machine.
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         std::string_view(error.what()).find("DefaultCPUAllocator") != std::string_view::npos;
}

std::string describe_device([[maybe_unused]] at::Device device) {
#ifdef KEEL_HAS_CUDA
  cudaDeviceProp properties{};
  if (device.is_cuda() && cudaGetDeviceProperties(&properties, device.index()) == cudaSuccess)
    return "cuda:" + std::to_string(device.index()) + " (" + properties.name + ")";
#endif
  const int threads = at::get_num_threads();
  return "cpu (" + std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") + at::get_cpu_capability() +
         ")";
}

}  // namespace keel
