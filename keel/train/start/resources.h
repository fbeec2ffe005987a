#pragma once

#include <string>

#include "keel/core/console.h"
#include "keel/train/start/step_estimate.h"

namespace keel {

/// Memory or disk space that a run needs, and what is free for it on this machine.
struct Resource {
  std::string name;       // "memory", "disk"
  int64_t needed = 0;     // bytes
  int64_t available = 0;  // bytes
  std::string parts;      // "1.8 GiB weights, 11 GiB activations of one micro-batch"
  std::string location;   // "cuda:0", "this machine", "the disk of runs/a"
  std::string fix;        // settings that lower the need

  /// "fits", "does not fit", or "tight" for up to 1.25 times what is available.
  std::string verdict() const;
  /// "needs about 1.4 TiB (...), but 130 GiB are available on cuda:0. Fix: ...".
  std::string shortage() const;
  bool is_tight() const { return needed > available; }
  bool is_short() const { return static_cast<double>(needed) > 1.25 * static_cast<double>(available); }
};

/// Memory of the run's larger phase. Counts other programs and the limit of a container.
Resource memory_resource(const RunSizes& sizes, const MemoryEstimate& estimate);

/// Disk space of the checkpoints that exist at a time. `saved_as`: dtype of the weights in a checkpoint's model folder.
Resource disk_resource(const RunSizes& sizes, at::ScalarType saved_as);

/// Fails (exit code 2) if the resource is short; warns if it is tight.
void require_resource(const Resource& resource, Console& console);

/// Fails if the weights, gradients and moments alone do not fit, before anything is loaded.
void require_memory_for_weights(const RunSizes& sizes);

}  // namespace keel
