#include "keel/train/config/recipes/shell_variables.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "keel/core/error.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

constexpr size_t kMaxDepth = 64;          // of a variable that names itself
constexpr size_t kMaxExpanded = 4 << 20;  // bytes

// Sums of integers, as $((...)) has them ----------------------------------------------------------------------------

class Arithmetic {
 public:
  explicit Arithmetic(std::string_view text) : rest_(text) {}

  /// Nothing where it is no sum, or none that 64 bits hold.
  std::optional<int64_t> value() {
    const int64_t number = sum(0);
    return ok_ && trimmed(rest_).empty() ? std::optional(number) : std::nullopt;
  }

 private:
  char peek() {
    rest_ = rest_.substr(std::min(rest_.find_first_not_of(" \t\n"), rest_.size()));
    return rest_.empty() ? '\0' : rest_[0];
  }
  int64_t sum(int depth) {
    int64_t left = product(depth);
    for (char c = peek(); ok_ && (c == '+' || c == '-'); c = peek()) {
      rest_.remove_prefix(1);
      const int64_t right = product(depth);
      ok_ =
          ok_ && !(c == '+' ? __builtin_add_overflow(left, right, &left) : __builtin_sub_overflow(left, right, &left));
    }
    return left;
  }
  int64_t product(int depth) {
    int64_t left = factor(depth);
    for (char c = peek(); ok_ && (c == '*' || c == '/' || c == '%'); c = peek()) {
      rest_.remove_prefix(1);
      const int64_t right = factor(depth);
      if (c == '*') {
        ok_ = ok_ && !__builtin_mul_overflow(left, right, &left);
      } else {
        ok_ = ok_ && right > 0;
        if (ok_) left = c == '/' ? left / right : left % right;
      }
    }
    return left;
  }
  int64_t factor(int depth) {
    const char c = peek();
    if (depth > 32 || (c != '(' && c != '-' && !is_digit(c))) return ok_ = false, 0;
    if (is_digit(c)) return number();
    rest_.remove_prefix(1);
    if (c == '-') return peek() == '-' ? (ok_ = false, 0) : -factor(depth + 1);
    const int64_t inside = sum(depth + 1);
    if (peek() != ')') return ok_ = false, 0;
    rest_.remove_prefix(1);
    return inside;
  }
  int64_t number() {
    int64_t value = 0;
    ok_ = ok_ && !(rest_[0] == '0' && rest_.size() > 1 && is_digit(rest_[1]));  // octal in a shell
    for (; !rest_.empty() && is_digit(rest_[0]); rest_.remove_prefix(1))
      ok_ = ok_ && !__builtin_mul_overflow(value, 10, &value) && !__builtin_add_overflow(value, rest_[0] - '0', &value);
    return value;
  }

  std::string_view rest_;
  bool ok_ = true;
};

/// What bash itself sets, whatever the environment has.
bool is_of_bash(const std::string& name) {
  static const std::set<std::string> kNames = {
      "RANDOM", "SRANDOM",  "SECONDS",    "LINENO", "UID",    "EUID",     "PPID",      "HOSTNAME",      "HOSTTYPE",
      "OSTYPE", "MACHTYPE", "SHLVL",      "OPTIND", "OPTARG", "OPTERR",   "FUNCNAME",  "GROUPS",        "DIRSTACK",
      "REPLY",  "COLUMNS",  "PIPESTATUS", "LINES",  "_",      "COPROC",   "IFS",       "EPOCHREALTIME", "EPOCHSECONDS",
      "PS4",    "MAPFILE",  "SHELLOPTS",  "PS1",    "PS2",    "HISTFILE", "COMP_WORDS"};
  return kNames.contains(name) || name.starts_with("BASH");
}

/// NAME=
bool is_only_name(std::string_view text) {
  return text.size() > 1 && text.ends_with('=') && is_shell_name_start(text[0]) &&
         std::all_of(text.begin(), text.end() - 1, is_shell_name_part);
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

}  // namespace

std::string name_assigned(const std::string& word) {
  size_t end = 0;
  while (end < word.size() && is_shell_name_part(word[end])) ++end;
  if (end == 0 || !is_shell_name_start(word[0])) return "";
  std::string_view behind = std::string_view(word).substr(end);
  if (behind.starts_with('[')) behind.remove_prefix(std::min(behind.find(']') + 1, behind.size()));
  return behind.starts_with('=') || behind.starts_with("+=") ? word.substr(0, end) : "";
}

// Assignments -------------------------------------------------------------------------------------------------------

void ShellVariables::assign(const ShellWord& assignment) {
  const std::string name = name_assigned(assignment.text);
  const size_t equals = assignment.text.find('=');
  const bool adds = assignment.text[equals - 1] == '+', is_element = assignment.text[name.size()] == '[';
  line_ = assignment.line;
  // Of an array that gets a text, or the other way round, bash changes the first element.
  const bool mixes = assignment.is_array ? adds && variables_.contains(name) : arrays_.contains(name);
  if (is_element || mixes || constants_.contains(name)) return make_uncertain(name, line_);
  if (adds && (uncertain_.contains(name) || unknown_.contains(name))) return;
  try {
    if (assignment.is_array) {
      if (adds && !arrays_.contains(name) && value_of(name))
        refuse("$" + name + " comes from outside, and is added to");
      std::vector<ShellWord> elements = adds ? arrays_[name] : std::vector<ShellWord>();
      for (const ShellWord& element : assignment.elements) {
        if (element.text.starts_with('[')) refuse("an element with its place, " + element.text + ", is not read");
        for (ShellWord& word : words(element)) elements.push_back(std::move(word));
      }
      variables_.erase(name);
      arrays_[name] = std::move(elements);
    } else {
      const std::string value = joined(expand(assignment.text.substr(equals + 1), /*splits=*/false, 0), "");
      variables_[name] = adds ? value_of(name).value_or("") + value : value;
      spend(variables_[name].size());
    }
    unknown_.erase(name);
  } catch (const Error& error) {
    variables_.erase(name), arrays_.erase(name);
    unknown_[name] = error.what();  // told where it is used
  }
  uncertain_.erase(name);
}

void ShellVariables::make_uncertain(const std::string& name, int line) {
  variables_.erase(name), arrays_.erase(name), unknown_.erase(name);
  uncertain_[name] = line;
}

void ShellVariables::make_all_uncertain(int line) {
  variables_.clear(), arrays_.clear(), unknown_.clear(), uncertain_.clear();
  all_set_on_ = arguments_set_on_ = line;
}

void ShellVariables::refuse(const std::string& what) const {
  fail(ExitCode::kBadConfiguration, file_, ":", line_, ": ", what, kShellWayOut);
}

void ShellVariables::refuse_uncertain(const std::string& name, int line) const {
  refuse("$" + name + " may be set on line " + std::to_string(line) + ", which only running the script could tell");
}

void ShellVariables::spend(size_t bytes) {
  spent_ = std::min(spent_ + bytes, 2 * kMaxExpanded);
  if (spent_ > kMaxExpanded) refuse("its variables make the script too large, more than 4 MiB");
}

// Words -------------------------------------------------------------------------------------------------------------

std::vector<ShellWord> ShellVariables::words(const ShellWord& raw) {
  line_ = raw.line;
  if (raw.is_array) refuse("an array cannot be a word of a command");
  std::string_view text = raw.text;
  const bool quoted = text.starts_with('"') && text.ends_with('"') && text.size() > 1;
  if (quoted) text = text.substr(1, text.size() - 2);
  if (text == "$@" && arguments_set_on_ == 0) return {};  // settings of a call, of which is none
  if (text.starts_with("${") && text.ends_with("[@]}")) {
    const std::string_view name = text.substr(2, text.size() - 6);
    if (std::all_of(name.begin(), name.end(), is_shell_name_part)) return elements_of(std::string(name), quoted);
  }
  std::vector<ShellWord> result;
  for (const std::string& word : expand(raw.text, /*splits=*/true, 0)) result.push_back({word, raw.line});
  return result;
}

std::vector<ShellWord> ShellVariables::elements_of(const std::string& name, bool quoted) {
  value_of(name);  // refuses one that is not certain
  const auto array = arrays_.find(name);
  if (array == arrays_.end()) refuse("the array " + name + " is not set");
  for (const ShellWord& element : array->second) {
    spend(element.text.size() + sizeof(ShellWord));
    if (!quoted && (element.text.empty() || std::any_of(element.text.begin(), element.text.end(), is_blank)))
      refuse("an element of " + name + " has blanks in it, at which bash cuts it: write \"${" + name + "[@]}\"");
  }
  return array->second;
}

/// Nothing where it has no value.
std::optional<std::string> ShellVariables::value_of(const std::string& name) const {
  const bool is_argument = !name.empty() && std::all_of(name.begin(), name.end(), is_digit);
  if (is_argument && arguments_set_on_ > 0) refuse_uncertain(name, arguments_set_on_);
  if (name == "0") refuse("$0 is the name that the script is called by");
  if (const auto uncertain = uncertain_.find(name); uncertain != uncertain_.end())
    refuse_uncertain(name, uncertain->second);
  if (const auto unknown = unknown_.find(name); unknown != unknown_.end())
    throw Error(ExitCode::kBadConfiguration, unknown->second);
  if (is_of_bash(name)) refuse("$" + name + " is what bash makes it");
  if (const auto known = variables_.find(name); known != variables_.end()) return known->second;
  if (const auto array = arrays_.find(name); array != arrays_.end())
    return array->second.empty() ? std::nullopt : std::optional(array->second[0].text);
  if (all_set_on_ > 0) refuse_uncertain(name, all_set_on_);
  const char* outside = std::getenv(name.c_str());
  return outside == nullptr ? std::nullopt : std::optional<std::string>(outside);
}

std::vector<std::string> ShellVariables::expand(std::string_view text, bool splits, size_t depth) {
  if (depth > kMaxDepth) refuse("variables are nested deeper than " + std::to_string(kMaxDepth) + " levels");
  spend(0);
  std::vector<std::string> words;
  std::string word;
  bool begun = false, names_files = false;
  const auto end_word = [&] {
    if (names_files && word.find('=') == std::string::npos)  // else the file would have to begin with the key
      refuse("which files " + word + " names is not looked up");
    if (begun) words.push_back(std::move(word));
    word.clear(), begun = names_files = false;
  };
  const auto add = [&](const std::string& value, bool cut) {
    spend(value.size());
    if (!cut) return word += value, begun = true, void();
    if (uncertain_.contains("IFS") || variables_.contains("IFS") || unknown_.contains("IFS"))
      refuse("the script sets IFS, at which bash cuts this");
    for (const char c : value) {
      if (is_blank(c))
        spend(sizeof(std::string)), end_word();
      else
        word += c, begun = true, names_files = names_files || c == '*' || c == '?';
    }
  };
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\'') {
      const size_t end = end_of_shell_piece(text, i, false);
      if (end == std::string_view::npos) refuse("a quote is never closed");
      add(std::string(text.substr(i + 1, end - i - 2)), false);
      i = end;
    } else if (c == '"') {
      add(expand_quoted(text, i, depth), false);
    } else if (text.substr(i).starts_with("\\\n")) {
      i += 2;
    } else if (c == '\\' && i + 1 < text.size()) {
      add(std::string(1, text[i + 1]), false);
      i += 2;
    } else if (c == '$') {
      add(dollar(text, i, splits ? Place::kWord : Place::kValue, depth), splits);
    } else if (c == '~' && (i == 0 || (splits ? is_only_name(text.substr(0, i)) : text[i - 1] == ':'))) {
      add(tilde(text, i), false);
    } else if (c == '`' || ((c == '<' || c == '>') && text.substr(i + 1).starts_with('('))) {
      refuse("a command in `...` or <(...) is not run");
    } else if (c == '{' && splits) {
      const std::string_view inside = text.substr(i, text.find('}', i) - i);
      if (inside.find(',') != std::string_view::npos || inside.find("..") != std::string_view::npos)
        refuse("bash makes several words of {...,...}: put quotes around it");
      add("{", false), ++i;
    } else {
      names_files = names_files || (splits && (c == '*' || c == '?'));
      add(std::string(1, c), false), ++i;
    }
  }
  end_word();
  return words;
}

/// What stands between the double quotes at `i`, which is moved behind them.
std::string ShellVariables::expand_quoted(std::string_view text, size_t& i, size_t depth) {
  spend(0);
  std::string value;
  for (++i;;) {
    const std::string_view rest = text.substr(std::min(i, text.size()));
    if (rest.empty()) refuse("a quote is never closed");
    if (rest[0] == '"') return ++i, value;
    const char next = rest.size() > 1 ? rest[1] : ' ';
    if (rest[0] == '`') refuse("a command in `...` is not run");
    if (rest.starts_with("\\\n")) {
      i += 2;
    } else if (rest[0] == '\\' && (next == '"' || next == '$' || next == '\\' || next == '`')) {
      value += next, i += 2;
    } else if (rest[0] == '$') {
      value += dollar(text, i, Place::kQuotes, depth);
    } else {
      value += rest[0], ++i;
    }
    if (value.size() > kMaxExpanded) spend(value.size());
  }
}

std::string ShellVariables::tilde(std::string_view text, size_t& i) const {
  // Hydra's ~key, which bash leaves as it is: there is no such user.
  const bool is_word = i == 0 && text.size() > 1 && text.find('/') == std::string_view::npos;
  if (is_word) return ++i, "~";
  const std::optional<std::string> home = value_of("HOME");
  if ((text.size() > i + 1 && text[i + 1] != '/') || !home) refuse("~ is read for your own home alone");
  return ++i, *home;
}

/// What stands at a dollar sign; `i` is moved behind it.
std::string ShellVariables::dollar(std::string_view text, size_t& i, Place place, size_t depth) {
  const std::string_view rest = text.substr(i);
  const bool quoted = place == Place::kQuotes;
  const char next = rest.size() > 1 ? rest[1] : ' ';
  if (next == '(' || next == '{') {
    const size_t end = end_of_shell_piece(rest, 0, quoted);
    if (end == std::string_view::npos) refuse(std::string("$") + next + " is never closed");
    const bool is_sum = rest.starts_with("$((") && rest.substr(0, end).ends_with("))");
    if (next == '(' && !is_sum) refuse("a command in $(...) is not run");
    i += end;
    return is_sum ? arithmetic(rest.substr(3, end - 5), depth) : parameter(rest.substr(2, end - 3), place, depth);
  }
  if (next == '@' || next == '*') {
    if (arguments_set_on_ > 0) refuse_uncertain("@", arguments_set_on_);
    return i += 2, "";  // settings of a call, of which is none
  }
  if (std::string_view("#?$!-[").find(next) != std::string_view::npos || (!quoted && (next == '\'' || next == '"')))
    refuse(std::string("$") + next + " is not read");
  size_t end = 1;
  while (end < rest.size() && is_shell_name_part(rest[end])) ++end;
  if (end == 1) return i += 1, "$";
  if (is_digit(next)) end = 2;
  i += end;
  return parameter(rest.substr(1, end - 1), place, depth);
}

/// NAME, NAME:-TEXT or NAME-TEXT.
std::string ShellVariables::parameter(std::string_view text, Place place, size_t depth) {
  size_t end = 0;
  while (end < text.size() && is_shell_name_part(text[end])) ++end;
  const std::string name(text.substr(0, end));
  std::string_view behind = text.substr(end);
  const bool also_empty = behind.starts_with(":-");
  if (name.empty() || !(behind.empty() || also_empty || behind.starts_with('-')))
    refuse("${" + std::string(text) + "} is not read");
  const std::optional<std::string> value = value_of(name);
  if (behind.empty() && !value) refuse("$" + name + " has no value, in the script or in the environment");
  if (value && (behind.empty() || !(also_empty && value->empty()))) return *value;
  behind.remove_prefix(also_empty ? 2 : 1);
  if (place == Place::kQuotes) {  // single quotes are none there
    if (behind.find_first_of("\"\\") != std::string_view::npos) refuse("${" + std::string(text) + "} is not read");
    size_t i = 0;
    const std::string whole = "\"" + std::string(behind) + "\"";
    return expand_quoted(whole, i, depth + 1);
  }
  const std::string whole = joined(expand(behind, /*splits=*/false, depth + 1), " ");
  const bool has_quotes = behind.find_first_of("\"'\\") != std::string_view::npos;
  if (place == Place::kWord && has_quotes && std::any_of(whole.begin(), whole.end(), is_blank))  // cut outside of them
    refuse("${" + std::string(text) + "} is not read");
  return whole;
}

std::string ShellVariables::arithmetic(std::string_view text, size_t depth) {
  std::string sum;  // with the values of variables, with or without a dollar sign
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_shell_name_part(text[end])) ++end;
    if (text[i] == '$') {
      sum += dollar(text, i, Place::kQuotes, depth + 1);
    } else if (end > i) {
      const std::string_view name = text.substr(i, end - i);
      sum += is_digit(name[0]) ? std::string(name) : "(" + parameter(name, Place::kQuotes, depth + 1) + ")";
      i = end;
    } else {
      sum += text[i++];
    }
    if (sum.size() > kMaxExpanded) spend(sum.size());
  }
  const std::optional<int64_t> value = Arithmetic(sum).value();
  if (!value) refuse("$((" + std::string(text) + ")) is no sum or product of integers");
  return std::to_string(*value);
}

}  // namespace keel
