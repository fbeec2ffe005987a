#include "keel/core/files/json_if_any.h"

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"

namespace keel {

Json json_if_any(const std::filesystem::path& path) {
  const auto is_file = [&] {
    try {
      return path_exists(path) && !is_folder(path);
    } catch (const Error&) {  // a link to itself, say
      return false;
    }
  };
  if (!is_file()) return Json::object();
  constexpr uint64_t kLargest = uint64_t{32} << 20;
  const std::string text = read_file(path, kLargest);
  try {
    Json json = parse_json_file(text, path.string());
    return json.is_object() ? json : Json::object();
  } catch (const Error&) {
    return Json::object();
  }
}

}  // namespace keel
