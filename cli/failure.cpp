#include "cli/failure.h"

#include <c10/util/Exception.h>

#include <filesystem>
#include <system_error>

#include "keel/core/parallel.h"
#include "keel/core/tensor/device.h"

namespace keel::cli {

Failure describe_failure(const std::exception& error) {
  const std::string what = error.what();
  if (const auto* const own = dynamic_cast<const Error*>(&error)) return {own->code(), what};
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr)
    return {ExitCode::kBadConfiguration, what + "; check the path and its permissions"};
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr)
    return {ExitCode::kHealthGuard,
            "out of memory on the GPU; lower train.tokens_per_batch, rollout.max_sequences or the model's sizes, stop "
            "other programs on it (nvidia-smi lists them), or use the CPU (run.device=cpu, --device cpu). Saved "
            "checkpoints are valid"};
  if (is_out_of_memory(error))
    return {
        ExitCode::kHealthGuard,
        "out of memory; lower train.tokens_per_batch, rollout.max_sequences or the model's sizes. Saved checkpoints "
        "are valid"};
  const auto* const system_error = dynamic_cast<const std::system_error*>(&error);
  if (system_error != nullptr && system_error->code() == std::errc::resource_unavailable_try_again)
    return {ExitCode::kHealthGuard,
            std::string("no more threads can be created. ") + kThreadLimits + ". Saved checkpoints are valid"};
  return {ExitCode::kInternal, "internal error: " + what};
}

}  // namespace keel::cli
