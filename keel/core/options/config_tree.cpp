#include "keel/core/options/config_tree.h"

#include <algorithm>
#include <charconv>

namespace keel {

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= path.size();) {
    const size_t dot = std::min(path.find('.', start), path.size());
    parts.emplace_back(path.substr(start, dot - start));
    start = dot + 1;
  }
  return parts;
}

const Json* find_value(const ConfigTree& tree, std::string_view path) {
  const Json* node = &tree.value;
  for (const std::string& part : split_path(path)) {
    if (node->is_array()) {
      size_t index = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      if (error != std::errc() || end != part.data() + part.size() || index >= node->size()) return nullptr;
      node = &(*node)[index];
      continue;
    }
    if (!node->is_object()) return nullptr;
    const auto child = node->find(part);
    if (child == node->end()) return nullptr;
    node = &*child;
  }
  return node;
}

const Json* find_non_null(const ConfigTree& tree, std::string_view path) {
  const Json* value = find_value(tree, path);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool on_command_line(const ConfigTree& tree, const std::string& path) {
  const auto line = tree.lines.find(path);
  return line != tree.lines.end() && line->second == 0;
}

std::string as_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

void erase_value(ConfigTree& tree, const std::string& path) {
  const size_t dot = path.find_last_of('.');
  const std::string above = dot == std::string::npos ? "" : path.substr(0, dot);
  Json* section = above.empty() ? &tree.value : const_cast<Json*>(find_value(tree, above));
  tree.lines.erase(path);
  if (section == nullptr || !section->is_object()) return;
  section->erase(path.substr(dot + 1));  // npos + 1 is 0
  if (section->empty() && !above.empty()) erase_value(tree, above);
}

std::string location_of(const ConfigTree& tree, const std::string& path) {
  const auto line = tree.lines.find(path);
  if (line == tree.lines.end()) return tree.file.empty() ? "configuration" : tree.file;  // a tree built by code
  return line->second == 0 ? kCommandLine : tree.file + ":" + std::to_string(line->second);
}

}  // namespace keel
