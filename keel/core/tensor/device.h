#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Opens the device "cpu" or "cuda". Throws an Error (exit code 2) that names `setting` if this build or machine does
/// not have it.
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

/// Returns the peak memory so far: of the device, or of this process on a CPU.
int64_t peak_memory_bytes(at::Device device);

/// Returns the resident memory of this process.
int64_t resident_memory_bytes();

/// Returns the total memory of the machine, or the container's limit.
int64_t machine_memory_bytes();

/// Returns the available memory: free memory and reclaimable page cache.
int64_t available_memory_bytes();

/// Returns whether the error means that a device or the host is out of memory.
bool is_out_of_memory(const std::exception& error);

/// Describes the device in one line: "cpu (2 threads, AVX512)" or "cuda:0".
std::string describe_device(at::Device device);

}  // namespace keel
