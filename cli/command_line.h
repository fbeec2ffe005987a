#pragma once

// The command line without the library that reads it, whose headers take the compiler longer than all commands
// together.

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

/// What is wrong with a value; empty where nothing is.
using Check = std::function<std::string(const std::string& value)>;

/// What a shell may offer where an argument's value is typed.
struct CompletionHints {
  bool files = false, folders = false;
  std::optional<std::string> settings = {};  // key=value, of all keys of a configuration that begin so
  std::vector<std::string> words = {};
};

/// An argument as it was described. One that has its place has no names.
struct ArgumentInfo {
  std::vector<std::string> names;  // "-o", "--output"
  std::string help;
  bool takes_value = false, repeats = false;
  CompletionHints hints;
};

/// One argument of a command. The functions that say more about it return it.
class Argument {
 public:
  explicit Argument(CLI::Option* option = nullptr, CompletionHints* hints = nullptr) : option_(option), hints_(hints) {}

  Argument& required();
  Argument& between(int64_t low, int64_t high);
  Argument& among(const std::vector<std::string>& choices);
  Argument& check(const Check& check);
  /// A list that gets one value each time its name is written.
  Argument& repeatable();
  Argument& needs(const Argument& other);
  Argument& excludes(const Argument& other);

  // What a shell may offer; any other value is taken, too.
  Argument& files();
  Argument& folders();
  Argument& settings(const std::string& begin = "");
  Argument& words(const std::vector<std::string>& words);

  bool given() const;
  /// Whether it takes the next word of the command line.
  bool takes_value() const;

 private:
  CLI::Option* option_;
  CompletionHints* hints_;
};

/// What is offered for the arguments of all commands.
using AllHints = std::map<const CLI::Option*, CompletionHints>;

class Command {
 public:
  Command(CLI::App* app, AllHints& hints) : app_(app), hints_(&hints) {}

  /// An argument with its name ("--model"; "CONFIG" for one that has its place), where its value goes, and a line of
  /// help. T is a text, a list of texts or a number, optional where not giving it means something.
  template <class T>
  Argument option(const char* name, T& value, const char* help);
  Argument flag(const char* name, bool& value, const char* help);
  /// Words and options that the command does not know are taken, and returned by rest() in their order.
  void take_rest();
  std::vector<std::string> rest() const;
  /// Behind the help; asked for when that is printed.
  void footer(std::function<std::string()> text);

  std::string name() const;
  /// What it does, in a line.
  std::string summary() const;
  std::string help() const;
  bool chosen() const;
  /// All of them, in the order of the help.
  std::vector<ArgumentInfo> arguments() const;
  std::optional<Argument> find(const std::string& argument) const;
  /// "--model", "--json", ...: all that are written with two dashes.
  std::vector<std::string> long_names() const;

 private:
  CLI::App* app_;
  AllHints* hints_;
};

/// What a command line turned out to be: a command that can begin, a wish for help or the version, or a mistake.
enum class ParseResult { kCommand, kHelp, kError };

class CommandLine {
 public:
  /// `version` is asked for when it is printed, `visible` when something that was typed is.
  CommandLine(const std::string& description, const std::string& program, std::function<std::string()> version,
              std::function<std::string(std::string)> visible);
  ~CommandLine();

  Command add(const char* name, const char* help);
  std::vector<Command> commands() const;
  std::string help() const;

  /// Prints help, the version or the mistake; not the mistake if `explained` returns true, which has then printed it.
  ParseResult parse(int argc, char** argv, const std::function<bool()>& explained);

 private:
  std::unique_ptr<CLI::App> app_;
  std::unique_ptr<AllHints> hints_ = std::make_unique<AllHints>();
};

/// A number as an argument of type double is read.
std::optional<double> parse_double(const std::string& text);

}  // namespace keel::cli
