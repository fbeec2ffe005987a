#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// "cpu" or "cuda" as a device; an error (exit code 2) that begins with the `setting` when this build or this machine
/// has none.
at::Device open_device(const std::string& name, const std::string& setting = "run.device");

/// CPU threads of the tensor library; 0 asks for one per core. Returns the number in force.
int64_t use_threads(int64_t threads);

/// Whether a GPU is to add up in one order whatever it does, so that what is done again has the same bits. Before the
/// device is used.
void use_deterministic_reductions(bool always);

/// Waits until the device has done all that this thread asked of it, so that a clock read afterwards is true.
void synchronize(at::Device device);

/// A tensor of the host on its way to the device: a GPU fetches it in turn with its other work, and nobody waits.
Tensor to_device_async(const Tensor& tensor, at::Device device);

/// The most memory held so far: of the device, or of this process on a CPU.
int64_t peak_memory_bytes(at::Device device);

/// What this process holds now.
int64_t resident_memory_bytes();

/// What this machine has, used or not, or what a container allows of it.
int64_t machine_memory_bytes();

/// What of that could be had now: what is free, or holds copies of files that the system would give up for it.
int64_t available_memory_bytes();

/// Whether it says that a device, or this machine, had no memory left.
bool is_out_of_memory(const std::exception& error);

/// One line on what computes: "cpu (2 threads, AVX512)" or "cuda:0".
std::string describe_device(at::Device device);

}  // namespace keel
