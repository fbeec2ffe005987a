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

class OptionTable;

/// Turns the value of another program's setting into ours. Runs after all plain values have been read, so it may ask
/// the table for them; throws Error when there is no answer. A discarded Json (kSetsNothing) leaves the target alone.
using AliasConverter = std::function<Json(const Json& value, const ConfigTree& tree, const OptionTable& table)>;
inline const Json kSetsNothing = Json(Json::value_t::discarded);

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

struct Alias {
  std::string name;    // dotted path in the other program's configuration
  std::string target;  // path of one of our options
  std::string source;  // the other program
  AliasConverter converter;
  std::string conversion;  // how the converter converts, for the documentation
};

struct Refusal {
  std::string name;
  std::string source;
  std::string reason;
  std::vector<Json> harmless = {};  // values that change nothing, and are accepted

  /// Whether a value is one of those.
  bool allows(const Json& value) const;
};

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

  /// Accepts another program's name for an option. Both are full dotted paths, wherever this is called. A name may be
  /// given several targets. The name of a section may stand for one of its options.
  void alias(std::string_view name, std::string_view target, std::string_view source,
             const AliasConverter& converter = nullptr, std::string_view conversion = "");

  /// Refuses another program's name (and everything below it) with a reason that says what to do instead; a value that
  /// changes nothing is accepted. Without a source it is a name that people try.
  void refuse(std::string_view name, std::string_view source, std::string_view reason,
              const std::vector<Json>& harmless = {});

  /// Assigns what the tree says and returns notes to print, one for each alias used whose option is worth one (all,
  /// where nothing is given). All mistakes are thrown together as one Error; the structs are then half assigned and of
  /// no use.
  std::vector<std::string> load(const ConfigTree& tree,
                                const std::function<bool(const std::string& path)>& worth_a_note = {});

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
  const std::vector<Alias>& aliases() const { return aliases_; }
  const std::vector<Refusal>& refusals() const { return refusals_; }
  /// The option at a path, or nullptr.
  const Option* find(std::string_view path) const;

 private:
  void add_option(std::string_view key, OptionTarget target, std::string_view help, const Limits& limits);
  std::string begin_section(std::string_view key, std::string_view help);
  std::string path_of(std::string_view key) const;
  /// Fails (kInternal) when a default breaks its own limits or a name leads nowhere or to two things.
  void check() const;

  std::string open_section_;  // path of the section being described; empty at the top
  std::vector<Section> sections_;
  std::vector<Option> options_;
  std::vector<Alias> aliases_;
  std::vector<Refusal> refusals_;
};

}  // namespace keel
