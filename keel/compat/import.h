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

/// A recipe of another program as a configuration of ours.
struct Imported {
  std::string program;                    // TRL or verl
  std::string yaml;                       // the configuration; each line says what it comes from
  std::vector<std::string> remarks;       // what the program does and Keel does not
  std::vector<std::string> ignored_keys;  // keys that do not change the training
  bool supervised = false;                // for `keel sft`
};

/// Converts a recipe (read_recipe). Keys in our names win over the recipe's. What would change the training is refused,
/// all of it in one Error. `ignored` are keys that the user takes out of the recipe.
Imported import_recipe(ConfigTree recipe, const std::vector<std::string>& ignored = {});

/// A recipe while it is converted: what computations read and write.
class Import {
 public:
  Import(const ConfigTree& recipe, const KeyTable& table);

  /// The value in the recipe; nullptr if the key is absent or null.
  const Json* given(const std::string& key) const;
  /// The value in the recipe (null included), else the program's default, else null.
  Json value(const std::string& key) const;
  /// value(), as a word: a string without quotes, anything else as JSON; empty for null.
  std::string word(const std::string& key) const;
  /// value() is true. An Error for anything but true, false and null.
  bool is_true(const std::string& key) const;
  /// value() as a positive integer that products of three cannot carry out of 63 bits; an Error for anything else.
  int64_t count(const std::string& key) const;
  /// value() as a number; an Error for anything else.
  double number(const std::string& key) const;

  /// Whether the user sets ours in our own name, next to the recipe. set() then does nothing.
  bool is_own(const std::string& target) const;
  /// Whether it has a value, from the user or from the recipe.
  bool is_set(const std::string& target) const;
  /// Our setting's value: the user's, else what was set so far, else Keel's default.
  Json ours(const std::string& target) const;

  /// Sets ours from a key of the recipe (or its default). A second key with another value is a contradiction, unless
  /// one of them is a default. `note` says in the comment how the value came about.
  void set(const std::string& target, Json value, const std::string& key, const std::string& note = "");
  /// An error about a key; all errors are reported together.
  void refuse(const std::string& key, const std::string& problem);
  /// The same, which ends the computation.
  [[noreturn]] void fail_at(const std::string& key, const std::string& expected) const;
  void remark(std::string text) { remarks_.push_back(std::move(text)); }

  /// Walks over the recipe, runs the table and loads the result.
  Imported run();

 private:
  struct Line {
    Json value;
    std::string key, note;
    bool is_default = false;
  };

  std::string place_of_key(const std::string& key) const;
  void walk(const std::string& path, const Json& value);
  void apply(const std::string& path, const Json& value);
  void map(const std::string& key, const KeyRow& row, const Json& value);
  void take_defaults();
  ConfigTree configuration() const;
  std::string yaml() const;
  void check();

  const ConfigTree& recipe_;
  const KeyTable& table_;
  Config config_;        // Keel's defaults
  OptionTable options_;  // of it
  std::map<std::string, Json> own_;
  std::map<std::string, Line> lines_;
  std::vector<std::string> remarks_, left_out_, errors_;
};

}  // namespace keel::compat
