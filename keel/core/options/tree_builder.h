#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/options/config_tree.h"

namespace keel {

constexpr size_t kMaxConfigDepth = 64;

/// Builds a ConfigTree from the events of a YAML or JSON reader. Rejects duplicate keys, keys with dots, and nesting
/// deeper than kMaxConfigDepth.
class TreeBuilder {
 public:
  explicit TreeBuilder(std::string file) : tree_{nullptr, {}, std::move(file)} {}

  /// Returns whether the next scalar is the key of a mapping.
  bool expects_key() const { return !levels_.empty() && levels_.back().expects_key; }
  void key(std::string_view name, int line);
  void scalar(Json value, int line) { put(std::move(value), line); }
  void begin_mapping(int line) { begin(Json::object(), line); }
  void begin_list(int line) { begin(Json::array(), line); }
  void end() { levels_.pop_back(); }

  /// Returns "FILE:LINE", or FILE if the line is 0.
  std::string location(int line) const { return line > 0 ? tree_.file + ":" + std::to_string(line) : tree_.file; }

  template <class... Parts>
  [[noreturn]] void refuse(int line, const Parts&... what) const {
    fail(ExitCode::kBadConfiguration, location(line), ": ", what...);
  }

  ConfigTree finish() && { return std::move(tree_); }

 private:
  struct Level {
    Json* node;        // stays valid: its parent gets no new child before this level ends
    std::string path;  // of the node
    std::string name;  // of the next child, in a mapping
    bool expects_key;  // false in a list
  };

  void begin(Json empty, int line);
  Json* put(Json value, int line);

  ConfigTree tree_;
  std::vector<Level> levels_;
  std::string path_;  // of the last value that put() added
};

/// Parses JSON text into the builder. Lines count from `first_line`; 0: no line numbers.
void read_json(std::string_view text, int first_line, TreeBuilder& builder);

/// Parses one YAML document into the builder. Fails in builds without yaml-cpp.
void read_yaml(std::string_view text, TreeBuilder& builder, Anchors anchors);

}  // namespace keel
