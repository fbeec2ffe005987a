#include "keel/core/files/replaceable.h"

#include "keel/core/error.h"

namespace keel {

void require_replaceable(const std::filesystem::path& path, std::string_view command,
                         const std::function<bool(const std::filesystem::path&)>& is_own) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;  // it does not exist, or writing will fail
  if (!std::filesystem::is_empty(path, ignored) && !is_own(path))
    fail(ExitCode::kBadConfiguration, "cannot write ", path.string(), ": it exists, and `keel ", command,
         "` did not write it; remove it or choose another name");
}

}  // namespace keel
