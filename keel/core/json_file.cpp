#include "keel/core/json_file.h"

#include "keel/core/error.h"
#include "keel/core/file.h"

namespace keel {

Json read_json_file(const std::filesystem::path& path) {
  Json json = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) fail(ExitCode::kBadInput, path.string(), ": not JSON");
  return json;
}

}  // namespace keel
