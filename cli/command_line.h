#pragma once

// The command line. It hides CLI11, whose headers take longer to compile than all commands together.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace keel::cli {

/// Validates a value and returns the error text, empty if the value is valid.
using Check = std::function<std::string(const std::string& value)>;

/// The values that shell completion offers for an argument.
struct CompletionHints {
  bool files = false, folders = false;
  std::optional<std::string> settings = {};  // key=value settings whose key has this prefix
  std::vector<std::string> words = {};
};

/// The description of an argument. A positional one has no names.
struct ArgumentInfo {
  std::vector<std::string> names;  // "-o", "--output"
  std::string help;
  bool takes_value = false, takes_many = false;
  CompletionHints hints;
};

/// One argument of a command. The setters return *this.
class Argument {
 public:
  explicit Argument(CLI::Option* option = nullptr, CompletionHints* hints = nullptr) : option_(option), hints_(hints) {}

  Argument& required();
  Argument& between(int64_t low, int64_t high);
  Argument& among(const std::vector<std::string>& choices);
  Argument& check(const Check& check);
  /// Lets the option be repeated, each time with one value.
  Argument& repeatable();
  Argument& needs(const Argument& other);
  Argument& excludes(const Argument& other);

  // Shell completion only: other values are accepted, too.
  Argument& files();
  Argument& folders();
  Argument& settings(const std::string& prefix = "");
  Argument& suggest(const std::vector<std::string>& words);

  bool given() const;
  /// Returns whether it takes the next argument of the command line as its value.
  bool takes_value() const;

 private:
  CLI::Option* option_;
  CompletionHints* hints_;
};

/// The hints for the arguments of all commands.
using AllHints = std::map<const CLI::Option*, CompletionHints>;

class Command {
 public:
  Command(CLI::App* app, AllHints& hints) : app_(app), hints_(&hints) {}

  /// Adds an option ("--model") or a positional argument ("CONFIG") that is stored in `value`. T is a string, a list of
  /// strings or a number; std::optional tells an unset value from the default.
  template <class T>
  Argument option(const char* name, T& value, const char* help);
  Argument flag(const char* name, bool& value, const char* help);
  /// Accepts unknown arguments and options; rest() returns them in order.
  void take_rest();
  std::vector<std::string> rest() const;
  /// Text after the help, computed when the help is printed.
  void footer(std::function<std::string()> text);

  std::string name() const;
  /// One line on what the command does.
  std::string summary() const;
  std::string help() const;
  bool chosen() const;
  /// All arguments, in the order of the help.
  std::vector<ArgumentInfo> arguments() const;
  std::optional<Argument> find(const std::string& argument) const;
  /// All names with two dashes: "--model", "--json", ...
  std::vector<std::string> long_names() const;

 private:
  CLI::App* app_;
  AllHints* hints_;
};

/// The result of parsing: a command is to run, help or the version was printed, or the command line is invalid.
enum class ParseResult { kCommand, kHelp, kError };

class CommandLine {
 public:
  /// `version` is called when the version is printed, `escape` on errors that quote the command line.
  CommandLine(const std::string& description, const std::string& program, std::function<std::string()> version,
              std::function<std::string(std::string)> escape);
  ~CommandLine();

  Command add(const char* name, const char* help);
  std::vector<Command> commands() const;
  std::string help() const;

  /// Parses the arguments and prints help, the version or the error. If `error_handler` returns true, it has printed
  /// the error itself.
  ParseResult parse(int argc, char** argv, const std::function<bool()>& error_handler);

 private:
  std::unique_ptr<CLI::App> app_;
  std::unique_ptr<AllHints> hints_ = std::make_unique<AllHints>();
};

/// Parses a number as arguments of type double are parsed.
std::optional<double> parse_double(const std::string& text);

}  // namespace keel::cli
