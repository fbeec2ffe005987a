#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/standard_input.h"
#include "cli/text_generator.h"
#include "keel/core/console.h"
#include "keel/core/interrupt.h"
#include "keel/core/untrusted_text.h"

namespace keel::cli {
namespace {

constexpr const char* kHelp =
    "/reset starts a new conversation, /system TEXT starts one with this system prompt, /exit quits";

/// The messages of a conversation.
class Conversation {
 public:
  explicit Conversation(std::string system) { begin(std::move(system)); }

  void begin(std::string system) {
    system_ = std::move(system);
    begin();
  }
  void begin() {
    messages_ = Json::array();
    if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
  }

  /// Sends a message and streams the model's answer. If there is none, the message is removed again.
  void send(const std::string& text, const TextGenerator& generator, Console& messages) {
    messages_.push_back({{"role", "user"}, {"content", text}});
    try {
      if (const auto bad_byte = first_bad_utf8(text))
        fail(ExitCode::kBadInput, "the message is not UTF-8 at its byte ", *bad_byte + 1, "; it was not sent");
      const auto show = [](std::string_view piece) {
        std::fputs(escape_controls(piece, Newlines::kKeep).c_str(), stdout);
        std::fflush(stdout);
      };
      const std::vector<Rollout> answer = generator.generate(generator.encode(messages_), 1, show);
      std::printf("\n");
      std::fflush(stdout);
      if (answer.front().finish == Finish::kLength)
        messages.line("cut off at " + std::to_string(answer.front().tokens.size()) + " tokens (--max-new-tokens)");
      messages_.push_back({{"role", "assistant"}, {"content", generator.completion_text(answer.front())}});
      ++answered_;
    } catch (...) {
      messages_.erase(messages_.size() - 1);
      ++unanswered_;
      throw;
    }
  }

  /// Returns whether no message could be answered.
  bool failed() const { return unanswered_ > 0 && answered_ == 0; }

 private:
  std::string system_;
  Json messages_;
  int64_t answered_ = 0, unanswered_ = 0;
};

/// Handles a line: a command if it begins with a slash, else a message. Returns false to quit.
bool handle_line(const std::string& line, Conversation& conversation, const TextGenerator& generator,
                 Console& messages) {
  constexpr std::string_view kSystemCommand = "/system ";
  if (line == "/exit" || line == "/quit" || line == "/bye") return false;
  if (line == "/reset" || line == "/clear") {
    conversation.begin();
  } else if (line.starts_with(kSystemCommand)) {
    conversation.begin(line.substr(kSystemCommand.size()));
  } else if (line.starts_with('/')) {
    messages.line(kHelp);
  } else if (line.find_first_not_of(" \t\r") != std::string::npos) {
    try {
      conversation.send(line, generator, messages);
    } catch (const Error& error) {  // for example, the message is too long; the conversation is unchanged
      messages.line(std::string(error.what()) + "; " + kHelp);
    }
  }
  return true;
}

ExitCode chat(const GenerationArguments& arguments) {
  Console messages(stderr);
  const TextGenerator generator(arguments, messages);
  if (generator.loaded().templates.empty())
    fail(ExitCode::kBadInput, arguments.model,
         " has no chat template. Fix: use keel generate, which continues plain text");
  generator.print_settings(messages);
  const bool interactive = isatty(STDIN_FILENO) == 1;
  if (interactive) messages.line(kHelp);
  Conversation conversation(generator.system_prompt(messages));
  while (true) {
    if (interactive) std::fputs("> ", stdout), std::fflush(stdout);
    const std::optional<std::string> line = read_input_line();
    if (!line || !handle_line(*line, conversation, generator, messages)) break;
    throw_if_stopped();
  }
  return conversation.failed() && !interactive ? ExitCode::kBadInput : ExitCode::kDone;
}

}  // namespace

CommandHandler add_chat(CommandLine& line) {
  const auto arguments = std::make_shared<GenerationArguments>();
  Command command = line.add("chat", "Chat with a model: each line is a message, answers are streamed");
  add_model_option(command, "MODEL", *arguments);
  command.option("--system", arguments->system, "System prompt (default: data.system_prompt of the model's run)");
  add_generation_options(command, *arguments);
  return [arguments] { return chat(*arguments); };
}

}  // namespace keel::cli
