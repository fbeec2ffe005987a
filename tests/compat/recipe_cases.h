#pragma once

#include <sstream>

#include "keel/compat/import.h"
#include "keel/compat/recipe.h"
#include "keel/core/files/json_file.h"
#include "keel/core/options/read_config.h"
#include "tests/support/errors.h"

namespace keel::compat {

/// Returns the elements of an array, or the blank-separated words of a string.
inline std::vector<std::string> words_of(const Json& arguments) {
  if (arguments.is_array()) return arguments.get<std::vector<std::string>>();
  std::istringstream text(arguments.get<std::string>());
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

/// Returns the setting that a recipe sets; null if it sets none.
inline Json setting(const Imported& recipe, const std::string& key) {
  const ConfigTree tree = parse_config(recipe.yaml, "keel.yaml");
  const Json* value = find_value(tree, key);
  return value == nullptr ? Json() : *value;
}

/// Checks the cases of a file of tests/compat: after the arguments of `before`, the arguments of a case set these
/// settings (null: not set), or are rejected with a message that has these parts.
inline void expect_recipe_cases(const std::string& file) {
  const Json groups = read_json_file("tests/compat/" + file);
  for (const auto& [name, group] : groups.items()) {
    for (const Json& row : group.at("cases")) {
      std::vector<std::string> words = words_of(group.at("before"));
      for (const std::string& word : words_of(row.at("arguments"))) words.push_back(word);
      SCOPED_TRACE(name + ": " + testing::PrintToString(words));
      if (row.contains("error")) {
        const std::string message = error_of(2, [&] { import_recipe(read_recipe("", words)); });
        for (const Json& part : row.at("error")) EXPECT_THAT(message, HasSubstr(part.get<std::string>()));
        continue;
      }
      const Imported recipe = import_recipe(read_recipe("", words));
      for (const auto& [key, value] : row.at("settings").items()) EXPECT_EQ(setting(recipe, key), value) << key;
    }
  }
}

}  // namespace keel::compat
