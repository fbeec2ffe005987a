#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

/// A word as it is written, with its quotes, and where. An array, NAME=(a b), is NAME= with its elements.
struct ShellWord {
  std::string text;
  int line;
  bool is_array = false;
  std::vector<ShellWord> elements = {};
};

/// A simple command without its redirections, and what decides whether bash comes to it.
struct ShellCommand {
  std::vector<ShellWord> words;
  std::vector<std::string> beside;  // the words of its redirections, and its here-documents
  std::string before, after;        // the operators on both sides: a line end, ;, &&, ||, |, &, ( or )
  bool nested = false;              // in an if, a loop, a case, a group, a subshell or a function
  bool in_function = false;
};

struct ShellText {
  std::vector<ShellCommand> commands;
  std::set<std::string> functions;  // that it defines
};

/// A shell script cut into its commands. Nothing is expanded; what is not understood is refused with its line.
ShellText commands_of_shell(std::string_view text, const std::string& file);

/// Where the quote, the escape or the $(...), ${...} or `...` that stands at `at` ends, or the single character; npos
/// where it never does. `quoted`: between double quotes.
size_t end_of_shell_piece(std::string_view text, size_t at, bool quoted, int depth = 0);

inline constexpr const char* kShellWayOut =
    "; write the value out, or give the settings themselves: keel import key=value ... (`bash -x` prints what a script "
    "runs)";

}  // namespace keel
