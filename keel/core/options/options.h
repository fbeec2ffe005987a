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

/// A setting that was removed or renamed, and what to use instead.
struct Refusal {
  std::string name, fix;
};

/// Explains an unknown key in an error, or returns an empty string.
using KeyHint = std::function<std::string(const std::string& path)>;
void explain_unknown_keys(KeyHint hint);

/// A table of options that loads, checks, documents and dumps them. A struct of options describes itself:
///
///   void RolloutOptions::describe(OptionTable& t) {
///     t.add("temperature", temperature, "Softmax temperature of sampling.", above(0).at_most(100));
///   }
///
/// Texts are std::string_view, because each std::string argument of hundreds of calls would add code. The variable's
/// value at that call is the default. The table points into the structs, which must outlive it and must not move.
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

  /// Adds a section and the options that its struct describes. Sections can nest.
  template <class Options>
  void section(std::string_view key, std::string_view help, Options& options) {
    const std::string outer = begin_section(key, help);
    options.describe(*this);
    open_section_ = outer;
  }

  /// Rejects a name and everything below it. The error contains `fix`.
  void refuse(std::string_view name, std::string_view fix);

  /// Assigns the values of the tree. Throws one Error with all mistakes; then the structs are only partly assigned. A
  /// string for a section with a `path` sets it (`model: FOLDER` sets model.path).
  void load(const ConfigTree& tree);

  /// Returns the current value of an option.
  Json get(std::string_view path) const;
  /// Returns the current values of all options, in the order of description.
  Json dump() const;
  /// Returns the current values as a YAML document, with `heading` as a comment above.
  std::string dump_yaml(const std::string& heading) const;
  /// Formats the table as plain text, for --help.
  std::string help() const;
  /// Formats the table as Markdown, for the documentation.
  std::string markdown() const;

  const std::vector<Section>& sections() const { return sections_; }
  const std::vector<Option>& options() const { return options_; }
  const std::vector<Refusal>& refusals() const { return refusals_; }
  /// Returns the option at a path, or nullptr.
  const Option* find(std::string_view path) const;

 private:
  void add_option(std::string_view key, OptionTarget target, std::string_view help, const Limits& limits);
  std::string begin_section(std::string_view key, std::string_view help);
  std::string path_of(std::string_view key) const;
  /// Fails (kInternal) if a default violates its limits or two entries have the same name.
  void check() const;

  std::string open_section_;  // path of the section being described; empty at the top
  std::vector<Section> sections_;
  std::vector<Option> options_;
  std::vector<Refusal> refusals_;
};

}  // namespace keel
