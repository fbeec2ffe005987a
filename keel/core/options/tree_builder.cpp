#include "keel/core/options/tree_builder.h"

namespace keel {
namespace {

std::string join(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

}  // namespace

void TreeBuilder::key(std::string_view name, int line) {
  Level& level = levels_.back();
  if (name.empty()) refuse(line, "a key is empty; give it a name");
  if (name.find('.') != std::string_view::npos) {
    const std::string_view outer = name.substr(0, name.find('.'));
    refuse(line, "the key \"", name, "\" has a dot in it; write ", outer.empty() ? "its parts" : outer,
           " as a section and the rest of the key inside");
  }
  const std::string path = join(level.path, name);
  const auto [earlier, is_new] = tree_.lines.emplace(path, line);
  if (!is_new) refuse(line, path, ": duplicate key; it is already on line ", earlier->second, ", keep one of them");
  level.name = name;
  level.expects_key = false;
}

Json* TreeBuilder::put(Json value, int line) {
  if (levels_.empty()) {
    tree_.value = std::move(value);
    path_.clear();
    return &tree_.value;
  }
  Level& level = levels_.back();
  if (level.node->is_array()) {
    path_ = join(level.path, std::to_string(level.node->size()));
    tree_.lines[path_] = line;
    level.node->push_back(std::move(value));
    return &level.node->back();
  }
  path_ = join(level.path, level.name);
  level.expects_key = true;
  // Appends directly: key() has rejected duplicates, and the usual insertion would search all earlier keys again.
  auto& entries = level.node->get_ref<Json::object_t&>();
  entries.emplace_back(level.name, std::move(value));
  return &entries.back().second;
}

void TreeBuilder::begin(Json empty, int line) {
  if (levels_.size() >= kMaxConfigDepth) refuse(line, "nested deeper than ", kMaxConfigDepth, " levels");
  const bool is_mapping = empty.is_object();
  Json* node = put(std::move(empty), line);
  levels_.push_back({node, path_, "", is_mapping});
}

}  // namespace keel
