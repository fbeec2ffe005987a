#include <unistd.h>

#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/standard_input.h"
#include "cli/text_generator.h"
#include "keel/core/console.h"
#include "keel/core/files/json_file.h"

namespace keel::cli {
namespace {

struct Request {
  GenerationArguments generation;
  std::string prompt;
  int64_t samples = 1;
  bool chat = false, special_as_text = false, json = false, raw = false;
};

std::vector<int32_t> prompt_tokens(const TextGenerator& generator, const Request& request, Console& console) {
  const std::string prompt = request.prompt == "-" ? read_all_input() : request.prompt;
  if (!request.chat) return encode_text(generator.loaded(), prompt, !request.special_as_text);
  Json messages = Json::array();
  const std::string system = generator.system_prompt(console);
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return generator.encode(messages);
}

void print_json(const Rollout& rollout, const TextGenerator& generator) {
  Json row = {{"tokens", rollout.tokens.ids},
              {"logprobs", rollout.tokens.behavior_logp},
              {"text", generator.completion_text(rollout)},
              {"finish_reason", finish_name(rollout.finish)}};
  if (generator.seed()) row["seed"] = *generator.seed();
  std::printf("%s\n", escape_json_controls(json_line(row)).c_str());
}

std::string escape(std::string_view text, const Request& request) {
  return request.raw ? std::string(text) : escape_controls(text, Newlines::kKeep);
}

/// Writes the text, which may contain NUL bytes.
void write_out(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

ExitCode generate(const Request& request) {
  if (request.generation.system && !request.chat)
    fail(ExitCode::kBadConfiguration,
         "--system needs --chat; a plain prompt has no system prompt: add --chat, or put "
         "the text into --prompt");
  if (request.generation.chat_template_kwargs && !request.chat)
    fail(ExitCode::kBadConfiguration, "--chat-template-word needs the chat template: add --chat");
  if (!request.generation.date.empty() && !request.chat)
    fail(ExitCode::kBadConfiguration, "--date needs the chat template: add --chat");
  if (request.special_as_text && request.chat)
    fail(ExitCode::kBadConfiguration,
         "--no-special-tokens has no effect with --chat, where messages are never read as "
         "special tokens: remove it");
  Console messages(stderr);
  const TextGenerator generator(request.generation, messages);
  std::vector<int32_t> prompt = prompt_tokens(generator, request, messages);
  if (prompt.empty())
    fail(ExitCode::kBadConfiguration, "--prompt is empty and the tokenizer adds no token; expected at least one token");
  // Streams a single completion to a terminal.
  const bool streams = isatty(STDOUT_FILENO) == 1 && request.samples == 1 && !request.json;
  const auto show = [&](std::string_view piece) {
    write_out(escape(piece, request));
    std::fflush(stdout);
  };
  if (streams) generator.print_settings(messages);
  const std::vector<Rollout> rollouts =
      generator.generate(std::move(prompt), request.samples, streams ? show : std::function<void(std::string_view)>());
  if (!streams) generator.print_settings(messages);
  for (const Rollout& rollout : rollouts)
    if (request.json)
      print_json(rollout, generator);
    else
      write_out((streams ? "" : escape(generator.completion_text(rollout), request)) + "\n");
  return ExitCode::kDone;
}

}  // namespace

CommandHandler add_generate(CommandLine& line) {
  const auto request = std::make_shared<Request>();
  Command command = line.add("generate", "Sample completions from a model, with log-probs");
  add_model_option(command, "--model", request->generation);
  command
      .option("--prompt", request->prompt,
              "Text to continue, or the user message with --chat; - reads standard input, without the final newline")
      .required();
  command.option("--system", request->generation.system,
                 "System prompt, with --chat (default: data.system_prompt of the model's run)");
  command.option("-n", request->samples, "Number of completions").between(1, 1 << 16);
  add_generation_options(command, request->generation);
  command.flag("--chat", request->chat, "Apply the model's chat template to the prompt");
  command.flag("--no-special-tokens", request->special_as_text,
               "Encode special tokens in a plain prompt, such as <|im_start|>, as text (default: as special tokens, as "
               "in training)");
  const Argument json =
      command.flag("--json", request->json,
                   "One JSON object per sample: tokens, logprobs, text, finish_reason, and the seed if the "
                   "temperature is above 0");
  command
      .flag("--raw", request->raw,
            "Print the text unchanged (default: control characters other than newline and tab are escaped)")
      .excludes(json);
  return [request] { return generate(*request); };
}

}  // namespace keel::cli
