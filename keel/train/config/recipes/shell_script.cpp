#include "keel/train/config/recipes/shell_script.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>

#include "keel/core/error.h"
#include "keel/core/json.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

constexpr const char* kWayOut =
    "; write the value out, or give the settings themselves: keel import key=value ... (`bash -x` prints what a script "
    "runs)";
constexpr size_t kMaxDepth = 64;          // of a variable that names itself
constexpr size_t kMaxExpanded = 1 << 20;  // bytes

bool is_name_start(char c) { return is_letter(c) || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

bool is_one_of(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The text cut into commands ----------------------------------------------------------------------------------------

/// A word as it is written, with its quotes, and where. That of an array, NAME=(a b), is NAME=( and its elements
/// follow.
struct RawWord {
  std::string text;
  int line;
};
using Command = std::vector<RawWord>;

class Cutter {
 public:
  Cutter(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<Command> commands() {
    while (at_ < text_.size()) next();
    end_command();
    return std::move(commands_);
  }

 private:
  void next() {
    const char c = text_[at_];
    if (c == '\\' && text_.substr(at_ + 1, 1) == "\n") return skip(2);
    if (c == ' ' || c == '\t' || c == '\r') return end_word(), skip(1);
    if (c == '#' && word_.empty()) return skip(std::min(text_.find('\n', at_), text_.size()) - at_);
    if (in_array_ && c == '\n') return end_word(), skip(1);
    if (in_array_ && c == ')') return end_command(), skip(1);
    if (c == '(' && word_.ends_with('=') && command_.empty()) return begin_array();
    if (c == '\n' || c == ';' || c == '|' || c == '&' || c == '<' || c == '>') return end_command(), skip(1);
    if (word_.empty()) word_line_ = line_;
    if (c == '\'' || c == '"') return take_quoted(c);
    if (c == '\\') return take(2);
    if (text_.substr(at_).starts_with("${")) return take_brackets('{', '}');
    if (text_.substr(at_).starts_with("$(")) return take_brackets('(', ')');
    take(1);
  }

  void skip(size_t count) {
    for (; count > 0 && at_ < text_.size(); --count) line_ += text_[at_++] == '\n';
  }
  void take(size_t count) {
    word_ += text_.substr(at_, count);
    skip(count);
  }
  void take_quoted(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += quote == '"' && text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) fail(ExitCode::kBadConfiguration, file_, ":", line_, ": a quote is never closed");
    take(end + 1 - at_);
  }
  void take_brackets(char open, char close) {
    int depth = 0;
    for (size_t end = at_ + 1; end < text_.size(); ++end) {
      depth += text_[end] == open ? 1 : text_[end] == close ? -1 : 0;
      if (depth == 0) return take(end + 1 - at_);
    }
    fail(ExitCode::kBadConfiguration, file_, ":", line_, ": $", open, " is never closed");
  }
  void begin_array() {
    take(1);
    end_word();
    in_array_ = true;
  }
  void end_word() {
    if (!word_.empty()) command_.push_back({std::move(word_), word_line_});
    word_.clear();
  }
  void end_command() {
    end_word();
    in_array_ = false;
    if (!command_.empty()) commands_.push_back(std::move(command_));
    command_.clear();
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
  int line_ = 1, word_line_ = 1;
  std::string word_;
  bool in_array_ = false;
  Command command_;
  std::vector<Command> commands_;
};

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
    if (c == '-') return -factor(depth + 1);
    const int64_t inside = sum(depth + 1);
    if (peek() != ')') return ok_ = false, 0;
    rest_.remove_prefix(1);
    return inside;
  }
  int64_t number() {
    int64_t value = 0;
    for (; !rest_.empty() && is_digit(rest_[0]); rest_.remove_prefix(1))
      ok_ = ok_ && !__builtin_mul_overflow(value, 10, &value) && !__builtin_add_overflow(value, rest_[0] - '0', &value);
    return value;
  }

  std::string_view rest_;
  bool ok_ = true;
};

// Words with their variables ----------------------------------------------------------------------------------------

class Script {
 public:
  explicit Script(const std::string& file) : file_(file) {}

  void assign(const std::string& assignment, int line, bool certain) {
    const size_t equals = assignment.find('=');
    const std::string name = assignment.substr(0, equals);
    if (!certain) return static_cast<void>(uncertain_[name] = line);
    line_ = line;
    try {
      const std::string value = joined(expand(assignment.substr(equals + 1), /*splits=*/false, 0), "");
      unknown_.erase(name);
      variables_[name] = value;
    } catch (const Error& error) {
      unknown_[name] = error.what();  // told where it is used
    }
    uncertain_.erase(name);
  }

  /// NAME=(a b), or NAME+=(a b), which adds to it.
  void assign_array(const Command& command, bool certain) {
    const std::string head = command[0].text.substr(0, command[0].text.size() - 2);
    const bool adds = head.ends_with('+');
    const std::string name = adds ? head.substr(0, head.size() - 1) : head;
    if (!certain) return static_cast<void>(uncertain_[name] = command[0].line);
    try {
      Command elements = adds ? arrays_[name] : Command();
      for (size_t i = 1; i < command.size(); ++i)
        for (const RawWord& word : words(command[i])) elements.push_back(word);
      if (!adds) unknown_.erase(name), uncertain_.erase(name);
      arrays_[name] = elements;
    } catch (const Error& error) {
      unknown_[name] = error.what();  // told where it is used
    }
  }

  /// A raw word as the words that it becomes: those of an array, or one with its variables' values.
  std::vector<RawWord> words(const RawWord& raw) {
    line_ = raw.line;
    std::string_view text = raw.text;
    if (text.starts_with('"') && text.ends_with('"') && text.size() > 1) text = text.substr(1, text.size() - 2);
    if (text.starts_with("${") && text.ends_with("[@]}")) {
      const std::string name(text.substr(2, text.size() - 6));
      value_of(name);  // refuses one that is not certain
      if (const auto array = arrays_.find(name); array != arrays_.end()) return array->second;
      refuse("the array " + name + " is not set");
    }
    std::vector<RawWord> result;
    for (const std::string& word : expand(raw.text, /*splits=*/true, 0)) result.push_back({word, raw.line});
    return result;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ExitCode::kBadConfiguration, file_, ":", line_, ": ", what, kWayOut);
  }

  /// Of a variable; nothing where it has no value.
  std::optional<std::string> value_of(const std::string& name) const {
    if (const auto uncertain = uncertain_.find(name); uncertain != uncertain_.end())
      refuse("$" + name + " is set on line " + std::to_string(uncertain->second) +
             " inside of an if or a loop, which " + "only running the script could tell");
    if (const auto unknown = unknown_.find(name); unknown != unknown_.end())
      throw Error(ExitCode::kBadConfiguration, unknown->second);
    if (const auto known = variables_.find(name); known != variables_.end()) return known->second;
    const char* outside = std::getenv(name.c_str());
    return outside == nullptr ? std::nullopt : std::optional<std::string>(outside);
  }

  std::vector<std::string> expand(std::string_view text, bool splits, size_t depth) {
    if (depth > kMaxDepth) refuse("variables are nested deeper than " + std::to_string(kMaxDepth) + " levels");
    std::vector<std::string> words;
    std::string word;
    bool begun = false;
    const auto end_word = [&] {
      if (begun) words.push_back(std::move(word));
      word.clear(), begun = false;
    };
    const auto add = [&](const std::string& value, bool cut) {
      if (word.size() + value.size() > kMaxExpanded) refuse("the variables make this too large");
      if (!cut) return word += value, begun = true, void();
      for (const char c : value) {
        if (c == ' ' || c == '\t' || c == '\n' || c == '\\')  // what a text in quotes has at the end of its lines
          end_word();
        else
          word += c, begun = true;
      }
    };
    for (size_t i = 0; i < text.size();) {
      const char c = text[i];
      if (c == '\'') {
        const size_t end = text.find('\'', i + 1);
        if (end == std::string_view::npos) refuse("a quote is never closed");
        add(std::string(text.substr(i + 1, end - i - 1)), false);
        i = end + 1;
      } else if (c == '"') {
        begun = true;
        for (++i;;) {
          const std::string_view rest = text.substr(std::min(i, text.size()));
          if (rest.empty()) refuse("a quote is never closed");
          if (rest[0] == '"') break;
          const char next = rest.size() > 1 ? rest[1] : ' ';
          if (rest.starts_with("\\\n"))
            i += 2;
          else if (rest[0] == '\\' && (next == '"' || next == '$' || next == '\\'))
            add(std::string(1, next), false), i += 2;
          else if (rest[0] == '$')
            add(dollar(text, i, depth), false);
          else
            add(std::string(1, rest[0]), false), ++i;
        }
        ++i;
      } else if (c == '\\' && i + 1 < text.size()) {
        add(std::string(1, text[i + 1]), false);
        i += 2;
      } else if (c == '$') {
        add(dollar(text, i, depth), splits);
      } else if (c == '`') {
        refuse("a command in `...` is not run");
      } else {
        add(std::string(1, c), false);
        ++i;
      }
    }
    end_word();
    return words;
  }

  /// What stands at a dollar sign; `i` is moved behind it.
  std::string dollar(std::string_view text, size_t& i, size_t depth) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("$((")) {
      const size_t end = closing(rest, '(', ')');
      i += end + 1;
      return arithmetic(rest.substr(3, end - 4), depth);
    }
    if (rest.starts_with("$(")) refuse("a command in $(...) is not run");
    if (rest.starts_with("${")) {
      const size_t end = closing(rest, '{', '}');
      i += end + 1;
      return parameter(rest.substr(2, end - 2), depth);
    }
    if (rest.size() > 1 && (rest[1] == '@' || rest[1] == '*'))
      return i += 2, "";  // settings of a call, of which is none
    size_t end = 1;
    while (end < rest.size() && is_name_part(rest[end])) ++end;
    if (end == 1) return i += 1, "$";
    i += end;
    return parameter(rest.substr(1, end - 1), depth);
  }

  /// Where the bracket behind a dollar sign is closed.
  size_t closing(std::string_view rest, char open, char close) const {
    int depth = 0;
    for (size_t end = 1; end < rest.size(); ++end) {
      depth += rest[end] == open ? 1 : rest[end] == close ? -1 : 0;
      if (depth == 0) return end;
    }
    refuse(std::string("$") + open + " is never closed");
  }

  /// NAME, NAME:-TEXT or NAME-TEXT.
  std::string parameter(std::string_view text, size_t depth) {
    size_t end = 0;
    while (end < text.size() && is_name_part(text[end])) ++end;
    const std::string name(text.substr(0, end));
    std::string_view behind = text.substr(end);
    const std::optional<std::string> value = value_of(name);
    if (behind.empty() && value) return *value;
    if (behind.empty()) refuse("$" + name + " has no value, in the script or in the environment");
    const bool also_empty = behind.starts_with(":-");
    if (!also_empty && !behind.starts_with('-')) refuse("${" + std::string(text) + "} is not read");
    if (value && !(also_empty && value->empty())) return *value;
    behind.remove_prefix(also_empty ? 2 : 1);
    return joined(expand(behind, /*splits=*/false, depth + 1), " ");
  }

  std::string arithmetic(std::string_view text, size_t depth) {
    std::string digits;  // with the values of variables, with or without a dollar sign
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      while (end < text.size() && is_name_part(text[end])) ++end;
      if (text[i] == '$') {
        digits += dollar(text, i, depth + 1);
      } else if (end > i && is_name_start(text[i])) {
        digits += parameter(text.substr(i, end - i), depth + 1);
        i = end;
      } else {
        digits += text[i++];
      }
    }
    const std::optional<int64_t> value = Arithmetic(digits).value();
    if (!value) refuse("$((" + std::string(text) + ")) is no sum or product of integers");
    return std::to_string(*value);
  }

  const std::string& file_;
  int line_ = 1;
  std::map<std::string, std::string> variables_;
  std::map<std::string, Command> arrays_;
  std::map<std::string, int> uncertain_;        // set where only running it could tell whether
  std::map<std::string, std::string> unknown_;  // set to what is not read, and why
};

// The command that trains -------------------------------------------------------------------------------------------

bool is_assignment(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 && is_name_start(word[0]) &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), is_name_part);
}

bool is_setting(const std::string& word) {
  return word.find('=') != std::string::npos && !word.starts_with('-') && !word.starts_with('=');
}

/// Behind which word the settings begin: the module or the file of a program that trains. 0: it is another command.
size_t first_setting(const Command& command) {
  for (size_t i = 0; i + 1 < command.size(); ++i) {
    const std::string& next = command[i + 1].text;
    if (command[i].text == "-m" && (next.starts_with("verl.") || next.starts_with("recipe."))) return i + 2;
    if (command[i].text == "trl" && next == "grpo") return i + 2;
  }
  const bool launches = is_one_of(command[0].text, {"python", "python3", "accelerate", "torchrun"});
  for (size_t i = 1; launches && i < command.size(); ++i)
    if (command[i].text.ends_with(".py") && i + 1 < command.size() && command[i + 1].text.starts_with("--"))
      return i + 1;
  return 0;
}

/// --key value value as key=value: none is true, several are a list.
std::vector<ScriptSetting> with_equals(const std::vector<RawWord>& words, const std::string& file) {
  std::vector<ScriptSetting> settings;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto& [word, line] = words[i];
    if (!word.starts_with("--")) {
      if (is_setting(word)) settings.push_back({word, line});
      continue;
    }
    const size_t equals = word.find('=');
    std::string key = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::vector<std::string> values;
    if (equals != std::string::npos) values.push_back(word.substr(equals + 1));
    while (equals == std::string::npos && i + 1 < words.size() && !words[i + 1].text.starts_with("--") &&
           !is_setting(words[i + 1].text))
      values.push_back(words[++i].text);
    const std::string first = values.empty() ? "true" : values[0];
    const std::string stem = first.substr(0, first.find(".yaml"));
    if (key == "config-path" || (key == "config-name" && is_one_of(stem, {"ppo_trainer", "ppo_megatron_trainer"})))
      continue;  // verl's own defaults
    if (key == "config" || key == "config-name")
      fail(ExitCode::kBadConfiguration, file, ":", line, ": --", key, " ", first,
           " names a file of further settings; import that file, with the others behind it: keel import FILE ",
           "key=value ...");
    std::replace(key.begin(), key.end(), '-', '_');
    for (std::string& value : values)
      if (values.size() > 1 && value.ends_with(',')) value.pop_back();  // as in "q_proj", "v_proj"
    settings.push_back({key + "=" + (values.size() > 1 ? Json(values).dump() : first), line});
  }
  return settings;
}

}  // namespace

std::vector<ScriptSetting> settings_of_script(std::string_view text, const std::string& file) {
  const std::vector<std::string> opens = {"if", "for", "while", "until", "case", "select"},
                                 closes = {"fi", "done", "esac"},
                                 within = {"then", "else", "elif", "do", "export", "local", "declare", "readonly"};
  const bool has_command = [&] {
    for (const Command& command : Cutter(text, file).commands())
      if (first_setting(command) > 0) return true;
    return false;
  }();
  Script script(file);
  std::vector<RawWord> words;  // with their variables' values
  int depth = 0, found_on = 0;
  for (Command& command : Cutter(text, file).commands()) {
    while (!command.empty() && is_one_of(command[0].text, within)) command.erase(command.begin());
    if (command.empty()) continue;
    if (is_one_of(command[0].text, opens)) ++depth;
    if (is_one_of(command[0].text, closes)) --depth;
    const size_t first = first_setting(command);
    if (first > 0) {
      if (found_on > 0)
        fail(ExitCode::kBadConfiguration, file, ":", command[0].line, ": a second training, after the one on line ",
             found_on, "; keep one of them");
      if (depth > 0)
        fail(ExitCode::kBadConfiguration, file, ":", command[0].line, ": the training is inside of an if or a loop, ",
             "which only running the script could tell", kWayOut);
      found_on = command[0].line;
    }
    if (command[0].text.ends_with("=(")) {
      script.assign_array(command, depth == 0);
      continue;
    }
    const bool assigns =
        std::all_of(command.begin(), command.end(), [](const RawWord& w) { return is_assignment(w.text); });
    if (assigns && (has_command || command[0].text.find('.') == std::string::npos)) {
      for (const RawWord& word : command) script.assign(word.text, word.line, depth == 0);
    } else if (first > 0 || !has_command) {
      for (size_t i = first; i < command.size(); ++i)
        for (const RawWord& word : script.words(command[i])) words.push_back(word);
    }
  }
  const std::vector<ScriptSetting> settings = with_equals(words, file);
  if (settings.empty())
    fail(ExitCode::kBadConfiguration, file, ": there is no training in this script: no settings (key=value) behind ",
         "`python3 -m verl.trainer.main_ppo`, and no --key value behind `trl grpo` or a Python file");
  return settings;
}

}  // namespace keel
