#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace keel::cli {
namespace {

/// Help of `app` itself, whereas App::help() returns that of the chosen subcommand.
std::string help_of(const CLI::App& app, const std::string& name) {
  return app.get_formatter()->make_help(&app, name, CLI::AppFormatMode::Normal);
}

}  // namespace

Argument& Argument::required() {
  option_->required();
  return *this;
}

Argument& Argument::between(int64_t low, int64_t high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

Argument& Argument::among(const std::vector<std::string>& choices) {
  option_->check(CLI::IsMember(choices));
  return suggest(choices);
}

Argument& Argument::check(const Check& check) {
  option_->check(CLI::Validator(check, ""));
  return *this;
}

Argument& Argument::repeatable() {
  option_->allow_extra_args(false);
  return *this;
}

Argument& Argument::needs(const Argument& other) {
  option_->needs(other.option_);
  option_->option_text(" ");  // instead of "Needs: OTHER", which the help text says
  return *this;
}

Argument& Argument::excludes(const Argument& other) {
  option_->excludes(other.option_);
  return *this;
}

Argument& Argument::files() {
  hints_->files = true;
  return *this;
}

Argument& Argument::folders() {
  hints_->folders = true;
  return *this;
}

Argument& Argument::settings(const std::string& prefix) {
  hints_->settings = prefix;
  return *this;
}

Argument& Argument::suggest(const std::vector<std::string>& words) {
  hints_->words = words;
  return *this;
}

bool Argument::given() const { return option_->count() > 0; }

bool Argument::takes_value() const { return option_->get_items_expected_min() > 0; }

template <class T>
Argument Command::option(const char* name, T& value, const char* help) {
  CLI::Option* added = app_->add_option(name, value, help);
  return Argument(added, &(*hints_)[added]);
}
template Argument Command::option(const char*, std::string&, const char*);
template Argument Command::option(const char*, int64_t&, const char*);
template Argument Command::option(const char*, uint64_t&, const char*);
template Argument Command::option(const char*, std::vector<std::string>&, const char*);
template Argument Command::option(const char*, std::optional<std::string>&, const char*);
template Argument Command::option(const char*, std::optional<double>&, const char*);
template Argument Command::option(const char*, std::optional<int64_t>&, const char*);
template Argument Command::option(const char*, std::optional<uint64_t>&, const char*);
template Argument Command::option(const char*, std::optional<std::vector<std::string>>&, const char*);

Argument Command::flag(const char* name, bool& value, const char* help) {
  CLI::Option* added = app_->add_flag(name, value, help);
  return Argument(added, &(*hints_)[added]);
}

void Command::take_rest() { app_->allow_extras(); }

std::vector<std::string> Command::rest() const { return app_->remaining(); }

void Command::footer(std::function<std::string()> text) { app_->footer(std::move(text)); }

std::string Command::name() const { return app_->get_name(); }

std::string Command::summary() const { return app_->get_description(); }

std::string Command::help() const { return help_of(*app_, app_->get_parent()->get_name() + " " + app_->get_name()); }

bool Command::chosen() const { return app_->parsed(); }

std::optional<Argument> Command::find(const std::string& argument) const {
  CLI::Option* found = app_->get_option_no_throw(argument);
  return found != nullptr ? std::optional(Argument(found, &(*hints_)[found])) : std::nullopt;
}

std::vector<std::string> Command::long_names() const {
  std::vector<std::string> names;
  for (const ArgumentInfo& argument : arguments())
    for (const std::string& name : argument.names)
      if (name.starts_with("--")) names.push_back(name);
  return names;
}

std::vector<ArgumentInfo> Command::arguments() const {
  std::vector<ArgumentInfo> arguments;
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    ArgumentInfo argument{.names = {},
                          .help = option->get_description(),
                          .takes_value = option->get_items_expected_min() > 0,
                          .takes_many = option->get_items_expected_max() > 1,
                          .hints = (*hints_)[option]};
    for (const std::string& name : option->get_snames()) argument.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) argument.names.push_back("--" + name);
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

CommandLine::CommandLine(const std::string& description, const std::string& program,
                         std::function<std::string()> version, std::function<std::string(std::string)> escape)
    : app_(std::make_unique<CLI::App>(description, program)) {
  app_->set_version_flag("--version", std::move(version));
  app_->require_subcommand(1);
  app_->failure_message([escape, program](const CLI::App* failed, const CLI::Error& error) {
    return escape(program + ": " + CLI::FailureMessage::simple(failed, error));
  });
}

CommandLine::~CommandLine() = default;

Command CommandLine::add(const char* name, const char* help) {
  return Command(app_->add_subcommand(name, help), *hints_);
}

std::vector<Command> CommandLine::commands() const {
  std::vector<Command> list;
  for (CLI::App* command : app_->get_subcommands({})) list.emplace_back(command, *hints_);
  return list;
}

std::string CommandLine::help() const { return help_of(*app_, app_->get_name()); }

ParseResult CommandLine::parse(int argc, char** argv, const std::function<bool()>& error_handler) {
  try {
    app_->parse(argc, argv);
    return ParseResult::kCommand;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0 && error_handler()) return ParseResult::kError;
    return app_->exit(error) == 0 ? ParseResult::kHelp : ParseResult::kError;
  }
}

std::optional<double> parse_double(const std::string& text) {
  double value = 0;
  return CLI::detail::lexical_cast(text, value) ? std::optional(value) : std::nullopt;
}

}  // namespace keel::cli
