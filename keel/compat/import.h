#pragma once

#include <map>
#include <string>
#include <vector>

#include "keel/compat/key_table.h"
#include "keel/core/error.h"
#include "keel/core/options/config_tree.h"
#include "keel/core/options/options.h"
#include "keel/train/config/config.h"

namespace keel::compat {

/// The result of an import: a Keel configuration.
struct Imported {
  std::string program;                    // TRL or verl
  std::string yaml;                       // the configuration with the origin of each line as a comment
  std::vector<std::string> remarks;       // differences between the program and Keel
  std::vector<std::string> ignored_keys;  // keys without effect on the training
  bool supervised = false;                // SFT only (`keel sft`)
};

/// Converts a recipe (read_recipe). Keel settings in it take precedence over its keys. Throws one Error that lists all
/// unsupported keys. `ignored` are keys to remove from the recipe.
Imported import_recipe(ConfigTree recipe, const std::vector<std::string>& ignored = {});

/// The state of an import, which computations read and write.
class Import {
 public:
  Import(const ConfigTree& recipe, const KeyTable& table);

  /// The value in the recipe; nullptr if the key is absent or null.
  const Json* find(const std::string& key) const;
  /// The value in the recipe (null included), else the program's default, else null.
  Json value(const std::string& key) const;
  /// value() as text: a string without quotes, other values as JSON; empty for null.
  std::string text(const std::string& key) const;
  /// Returns whether value() is true. Throws an Error unless it is true, false or null.
  bool is_true(const std::string& key) const;
  /// value() as an integer from 1 to 2^20, so that products of three fit into 63 bits. Else throws an Error.
  int64_t count(const std::string& key) const;
  /// value() as a number. Throws an Error for other values.
  double number(const std::string& key) const;

  /// Returns whether the user sets this Keel setting next to the recipe. set() then does nothing.
  bool user_sets(const std::string& target) const;
  /// Returns whether a Keel setting has a value from the user or the recipe.
  bool is_set(const std::string& target) const;
  /// The value of a Keel setting: the user's, else the one set so far, else the default.
  Json setting(const std::string& target) const;

  /// Sets a Keel setting from a key of the recipe (or its default). A second key with another value is an error, unless
  /// one of them is a default. `note` explains the value in a comment.
  void set(const std::string& target, Json value, const std::string& key, const std::string& note = "");
  /// Adds an error about a key. All errors are reported together.
  void refuse(const std::string& key, const std::string& problem);
  /// Throws an error about a key, which ends the computation.
  [[noreturn]] void fail_at(const std::string& key, const std::string& expected) const;
  void remark(std::string text) { remarks_.push_back(std::move(text)); }

  /// Converts the recipe with the table and validates the configuration.
  Imported run();

 private:
  struct Line {
    Json value;
    std::string key, note;
    bool is_default = false;
  };

  std::string key_location(const std::string& key) const;
  void walk(const std::string& path, const Json& value);
  void apply(const std::string& path, const Json& value);
  void map(const std::string& key, const KeyRow& row, const Json& value);
  ConfigTree configuration() const;
  std::string yaml() const;
  void check();

  const ConfigTree& recipe_;
  const KeyTable& table_;
  Config config_;        // defaults of Keel
  OptionTable options_;  // of config_
  std::map<std::string, Json> user_;
  std::map<std::string, Line> lines_;
  std::vector<std::string> remarks_, ignored_keys_, errors_;
};

}  // namespace keel::compat
