#include "keel/core/json_file.h"

#include <string_view>
#include <utility>

#include "keel/core/error.h"
#include "keel/core/file.h"

namespace keel {

Json read_json_file(const std::filesystem::path& path) {
  Json json = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    fail(ExitCode::kBadInput, path.string(), ": not JSON, or cut short; fetch it or write it again");
  return json;
}

std::string json_line(const Json& json) {
  std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::pair<std::string_view, std::string_view> kEnds[] = {
      {"\u0085", "\\u0085"}, {"\u2028", "\\u2028"}, {"\u2029", "\\u2029"}};
  for (const auto& [end, escaped] : kEnds)
    for (size_t at = 0; (at = line.find(end, at)) != std::string::npos; at += escaped.size())
      line.replace(at, end.size(), escaped);
  return line;
}

}  // namespace keel
