#include "keel/core/files/json_file.h"

#include <utility>

#include "keel/core/error.h"
#include "keel/core/files/file.h"

namespace keel {
namespace {

constexpr uint64_t kMaxJsonBytes = uint64_t{32} << 20;  // a tree takes about ten times the memory of its text

}  // namespace

Json read_json_file(const std::filesystem::path& path, const JsonRules& rules) {
  return parse_json_file(read_file(path, kMaxJsonBytes), path.string(), rules);
}

Json json_if_any(const std::filesystem::path& path) {
  try {
    if (!path_exists(path) || is_folder(path)) return Json::object();
  } catch (const Error&) {  // for example a link to itself
    return Json::object();
  }
  const std::optional<Json> json = try_parse_json(read_file(path, kMaxJsonBytes));
  return json && json->is_object() ? *json : Json::object();
}

Json parse_json_file(std::string_view content, const std::string& file_name, const JsonRules& rules) {
  try {
    return parse_json(content, rules);
  } catch (const JsonParseError& error) {
    fail(ExitCode::kBadInput, file_name, ":", error.line(), ": ", error.what(), "; fetch it or write it again");
  }
}

std::string format_short_json(const Json& json) {
  constexpr size_t kShown = 80;
  std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShown) text.replace(kShown, std::string::npos, "...");
  return text;
}

std::string json_line(const Json& json) {
  std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::pair<std::string_view, std::string_view> kLineEnds[] = {
      {"\u0085", "\\u0085"}, {"\u2028", "\\u2028"}, {"\u2029", "\\u2029"}};
  for (const auto& [end, escaped] : kLineEnds)
    for (size_t at = 0; (at = line.find(end, at)) != std::string::npos; at += escaped.size())
      line.replace(at, end.size(), escaped);
  return line;
}

}  // namespace keel
