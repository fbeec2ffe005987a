#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Returns whether this build can use a GPU of this machine.
bool has_gpu();

/// Returns whether this build was made for GPUs.
bool is_gpu_build();

/// Opens the device "cpu", "cuda" or "auto": the GPU if there is one that this build can use, else the CPU. Throws an
/// Error (exit code 2) that names `setting` if this build or machine does not have the device.
at::Device open_device(const std::string& name, const std::string& setting = "run.device");

/// Sets LibTorch's number of CPU threads (0: one per core). Returns the actual number.
int64_t use_threads(int64_t threads);

/// Makes GPU reductions deterministic, so that repeated computations are bitwise equal. Must be called before the
/// device is used.
void use_deterministic_reductions(bool enabled);

/// Waits for the work that this thread has queued on the device, for example to measure time.
void synchronize(at::Device device);

/// Copies a host tensor to the device, asynchronously in the current stream of a GPU.
Tensor to_device_async(const Tensor& tensor, at::Device device);

/// Returns the peak memory of tensors on a GPU so far, or of this process on a CPU.
int64_t peak_memory_bytes(at::Device device);

/// Memory that CUDA takes on a GPU next to tensors: context, kernels and libraries. Measured on an H200 as the
/// driver's count minus the allocator's.
constexpr int64_t kCudaContextBytes = int64_t{820} << 20;

/// Returns the peak memory that this process took from a GPU so far: what the allocator reserved, and CUDA itself.
int64_t peak_reserved_bytes(at::Device device);

/// Returns the resident memory of this process.
int64_t resident_memory_bytes();

/// Returns the total memory of the machine, or the container's limit.
int64_t machine_memory_bytes();

/// Returns the machine's free memory and reclaimable page cache, within the container's limit.
int64_t available_memory_bytes();

/// Returns the memory of the device that this process may use: what is available, and what it already has.
int64_t usable_memory_bytes(at::Device device);

/// Returns whether the error means that a device or the host is out of memory.
bool is_out_of_memory(const std::exception& error);

/// Describes the device in one line: "cpu (2 threads, AVX512)" or "cuda:0 (NVIDIA H200)".
std::string describe_device(at::Device device);

}  // namespace keel
