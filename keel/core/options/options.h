#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "keel/core/json.h"
#include "keel/core/options/config_tree.h"
#include "keel/core/options/limits.h"
#include "keel/core/options/option_value.h"

namespace keel {

struct Section {
  std::string path;
  std::string help;
};

struct Option {
  std::string path;
  std::string help;
  Limits limits;
  OptionTarget target;
  Json default_value;
};

/// A setting that was removed or renamed.
struct Refusal {
  std::string name, fix;
};

/// Explains a key that is not an option, or returns an empty text; asked when an error names an unknown key.
using KeyHint = std::function<std::string(const std::string& path)>;
void explain_unknown_keys(KeyHint hint);

/// One table from which options are read, checked, explained and written down. A struct of options describes itself:
///
///   void RolloutOptions::describe(OptionTable& t) {
///     t.add("temperature", temperature, "Softmax temperature of sampling.", above(0).at_most(100));
///   }
///
/// Texts are views: they stand here by the hundred, and each would be a std::string made and destroyed by its own code.
/// The value a variable has at that moment is its default. The table points into the structs: they must outlive it and
/// stay where they are.
class OptionTable {
 public:
  /// Adds an option to the section being described.
  template <class T>
  void add(std::string_view key, T& variable, std::string_view help, const Limits& limits = {}) {
    static_assert(std::is_constructible_v<OptionTarget, T*>,
                  "an option is a bool, int64_t, uint64_t, double, std::string, a std::optional of one of those, or a "
                  "std::vector of std::string, double or int64_t");
    add_option(key, &variable, help, limits);
  }

  /// Adds a section and everything its struct describes; sections nest.
  template <class Options>
  void section(std::string_view key, std::string_view help, Options& options) {
    const std::string outer = begin_section(key, help);
    options.describe(*this);
    open_section_ = outer;
  }

  /// Refuses a name (and everything below it); the error says what to do instead.
  void refuse(std::string_view name, std::string_view fix);

  /// Assigns what the tree says. All mistakes are thrown together as one Error; the structs are then half assigned and
  /// of no use. A text for a section that has a `path` is that (`model: FOLDER` is model.path).
  void load(const ConfigTree& tree);

  /// The present value of an option.
  Json get(std::string_view path) const;
  /// The present values of all options, in the order of description.
  Json dump() const;
  /// The same as a YAML document that loads to the same values, under `heading` as a comment.
  std::string dump_yaml(const std::string& heading) const;
  /// The table as plain text, for --help.
  std::string help() const;
  /// The table as Markdown, for the documentation.
  std::string markdown() const;

  const std::vector<Section>& sections() const { return sections_; }
  const std::vector<Option>& options() const { return options_; }
  const std::vector<Refusal>& refusals() const { return refusals_; }
  /// The option at a path, or nullptr.
  const Option* find(std::string_view path) const;

 private:
  void add_option(std::string_view key, OptionTarget target, std::string_view help, const Limits& limits);
  std::string begin_section(std::string_view key, std::string_view help);
  std::string path_of(std::string_view key) const;
  /// Fails (kInternal) when a default breaks its own limits or a name stands for two things.
  void check() const;

  std::string open_section_;  // path of the section being described; empty at the top
  std::vector<Section> sections_;
  std::vector<Option> options_;
  std::vector<Refusal> refusals_;
};

}  // namespace keel
