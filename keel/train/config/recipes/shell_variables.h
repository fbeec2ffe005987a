#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "keel/train/config/recipes/shell_commands.h"

namespace keel {

/// The variables of a shell script as far as they are known for sure, and words with their values. What is not known is
/// refused where it is used.
class ShellVariables {
 public:
  explicit ShellVariables(const std::string& file) : file_(file) {}

  /// NAME=text, NAME+=text, NAME=(a b) or NAME+=(a b).
  void assign(const ShellWord& assignment);
  /// From `line` on only running the script could tell its value.
  void make_uncertain(const std::string& name, int line);
  void make_all_uncertain(int line);
  /// The names that "$@" and $1 stand for.
  void make_arguments_uncertain(int line) { arguments_set_on_ = line; }
  void make_constant(const std::string& name) { constants_.insert(name); }

  /// A word as the words that it becomes.
  std::vector<ShellWord> words(const ShellWord& raw);

 private:
  enum class Place { kQuotes, kWord, kValue };  // where a dollar sign stands: only in a word bash cuts at blanks

  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void refuse_uncertain(const std::string& name, int line) const;
  void spend(size_t bytes);
  std::optional<std::string> value_of(const std::string& name) const;
  std::vector<ShellWord> elements_of(const std::string& name, bool quoted);
  std::vector<std::string> expand(std::string_view text, bool splits, size_t depth);
  std::string expand_quoted(std::string_view text, size_t& i, size_t depth);
  std::string tilde(std::string_view text, size_t& i) const;
  std::string dollar(std::string_view text, size_t& i, Place place, size_t depth);
  std::string parameter(std::string_view text, Place place, size_t depth);
  std::string arithmetic(std::string_view text, size_t depth);

  const std::string& file_;
  int line_ = 1;
  size_t spent_ = 0;  // bytes, of all words that were made
  std::map<std::string, std::string> variables_;
  std::map<std::string, std::vector<ShellWord>> arrays_;
  std::map<std::string, int> uncertain_;        // and the line that made it so
  std::map<std::string, std::string> unknown_;  // set to what is not read, and why
  std::set<std::string> constants_;
  int all_set_on_ = 0, arguments_set_on_ = 0;  // 0: nowhere
};

inline bool is_shell_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool is_shell_name_part(char c) { return is_shell_name_start(c) || (c >= '0' && c <= '9'); }

/// The name that NAME=..., NAME+=... or NAME[...]=... sets; empty where a word is no assignment.
std::string name_assigned(const std::string& word);

}  // namespace keel
