#include "keel/train/start/resources.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/free_space.h"
#include "keel/core/str_cat.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"

namespace keel {
namespace {

std::string describe_parts(const MemoryEstimate& memory) {
  std::vector<std::string> parts;
  const auto add = [&](int64_t bytes, const char* what) {
    if (bytes > 0) parts.push_back(format_bytes(bytes) + " " + what);
  };
  add(memory.weights, "weights"), add(memory.optimizer, "gradients and moments"), add(memory.copies, "weight copies");
  add(memory.states, "hidden states of the sampler");
  add(memory.kv_cache, "KV cache"), add(memory.sampler, "weights and logits of the sampler");
  add(memory.activations, "activations of one micro-batch"), add(memory.program, "the program itself");
  return joined(parts) + (memory.kv_cache > 0 && !memory.samples_while_training
                              ? "; sampler and activations are not in memory together"
                              : "");
}

/// Names the settings that lower the largest part.
std::string memory_fix(const MemoryEstimate& memory, const Config& config) {
  if (memory.kv_cache >= memory.activations && memory.kv_cache >= memory.persistent_bytes())
    return "lower rollout.max_sequences or rollout.max_new_tokens";
  if (memory.activations >= memory.persistent_bytes())
    return config.train.recompute_activations ? "lower train.tokens_per_batch"
                                              : "lower train.tokens_per_batch, or set train.recompute_activations=true";
  return config.lora.used() ? "choose a smaller model" : "train an adapter (lora.rank=16), or choose a smaller model";
}

/// Bytes of the files in a checkpoint: the model folder, the optimizer's moments and float32 master weights, which are
/// saved if the model folder is narrower; and the same of a critic.
int64_t checkpoint_bytes(const RunSizes& sizes, at::ScalarType saved_as) {
  const Config& config = sizes.config;
  const int64_t trained = trained_parameters(config, sizes.shape), moments = config.optimizer.moments == "8bit" ? 2 : 8;
  const bool saves_masters = saved_as != at::kFloat && !config.lora.used();
  const int64_t model = sizes.shape.parameter_count() * static_cast<int64_t>(c10::elementSize(saved_as)),
                adapter = config.lora.used() ? 4 * trained : 0,
                optimizer = (moments + (saves_masters ? 4 : 0)) * trained,
                critic = config.critic.has_separate_body() ? (4 + moments) * sizes.shape.parameter_count() : 0;
  // Past policies have master weights if their sampler's weights are merged or rounded, else the weights themselves.
  const bool copies_masters = config.lora.used() || config.rollout.weights != "exact";
  const int64_t past = copies_masters ? 4 : static_cast<int64_t>(c10::elementSize(sizes.type));
  return model + adapter + optimizer + critic + config.rollout.staleness * past * trained;
}

/// Bytes of all files below a folder; 0 if it does not exist.
int64_t bytes_below(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return 0;
  int64_t bytes = 0;
  for (const std::string& name : list_directory(folder)) {
    const std::filesystem::path path = folder / name;
    if (std::filesystem::is_regular_file(path, ignored))
      bytes += static_cast<int64_t>(std::filesystem::file_size(path, ignored));
    else
      bytes += bytes_below(path);
  }
  return bytes;
}

/// Bytes of the run's present checkpoints and reference, which a new checkpoint or a new run replaces.
int64_t replaced_bytes(const std::filesystem::path& run) {
  return bytes_below(run / "checkpoints") + bytes_below(run / "reference");
}

/// The existing folder that will contain `path`, or a parent of it that can be read.
std::filesystem::path existing_parent(std::filesystem::path path) {
  std::error_code ignored;
  path = full_path(path);
  while (!std::filesystem::exists(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return path;
}

}  // namespace

std::string Resource::verdict() const { return is_short() ? "does not fit" : is_tight() ? "tight" : "fits"; }

std::string Resource::shortage() const {
  return str_cat(name, ": the run needs about ", format_bytes(needed), " (", parts, "), but ", location, " has ",
                 format_bytes(available), " available. Fix: ", fix);
}

Resource memory_resource(const RunSizes& sizes, const MemoryEstimate& estimate) {
  return {.name = "memory",
          .needed = estimate.bytes(),
          .available = usable_memory_bytes(sizes.device),
          .parts = describe_parts(estimate),
          .location = sizes.device.is_cpu() ? "this machine" : sizes.device.str(),
          .fix = memory_fix(estimate, sizes.config) +
                 (sizes.device.is_cuda() ? "; nvidia-smi lists other programs on the GPU" : "")};
}

Resource disk_resource(const RunSizes& sizes, at::ScalarType saved_as) {
  const Config& config = sizes.config;
  const int64_t bytes = checkpoint_bytes(sizes, saved_as);
  // An old checkpoint is removed after a new one is complete. The last one is at the end, and one is between phases.
  const int64_t steps = config.train.steps + config.sft.steps,
                planned = 2 + (config.checkpoint.every > 0 ? steps / config.checkpoint.every : 0),
                kept = std::min(config.checkpoint.keep + 1, planned) + (config.checkpoint.keeps_best() ? 1 : 0);
  const int64_t reference = config.reference.used() && !config.lora.used() ? 4 * sizes.shape.parameter_count() : 0;
  const std::filesystem::path folder = existing_parent(config.run.dir);
  const std::optional<uint64_t> available = free_space(folder);
  return {.name = "disk",
          .needed = kept * bytes + reference,
          .available = available ? static_cast<int64_t>(std::min<uint64_t>(*available, INT64_MAX / 2)) +
                                       replaced_bytes(config.run.dir)
                                 : INT64_MAX,
          .parts = str_cat("checkpoints of ", format_bytes(bytes), " each, up to ", kept, " at a time",
                           reference > 0 ? ", and the reference" : ""),
          .location = "the disk of " + folder.string(),
          .fix = "free space, set run.dir to another disk, or lower checkpoint.keep"};
}

void require_resource(const Resource& resource, Console& console) {
  if (resource.is_short()) fail(ExitCode::kBadConfiguration, resource.shortage());
  if (resource.is_tight()) console.warning(resource.shortage());
}

void require_memory_for_weights(const RunSizes& sizes) {
  MemoryEstimate estimate = estimate_run_memory(sizes);
  estimate.kv_cache = estimate.sampler = estimate.activations = 0;
  const Resource resource = memory_resource(sizes, estimate);
  if (resource.is_short()) fail(ExitCode::kBadConfiguration, resource.shortage());
}

}  // namespace keel
