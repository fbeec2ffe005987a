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
  const std::string prompt = request.prompt == "-" ? all_of_input() : request.prompt;
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

std::string visible(std::string_view text, const Request& request) {
  return request.raw ? std::string(text) : escape_controls(text, Newlines::kKeep);
}

/// Also where a zero byte is in it.
void write_out(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

ExitCode generate(const Request& request) {
  if (request.generation.system && !request.chat)
    fail(ExitCode::kBadConfiguration, "--system is given without --chat; a plain prompt has no system message: add ",
         "--chat, or write the text into --prompt");
  if (request.generation.chat_template_kwargs && !request.chat)
    fail(ExitCode::kBadConfiguration,
         "--chat-template-word is given without --chat; it is for the chat template: add --chat");
  if (!request.generation.date.empty() && !request.chat)
    fail(ExitCode::kBadConfiguration, "--date is given without --chat; it is for chat templates that ask: add --chat");
  if (request.special_as_text && request.chat)
    fail(ExitCode::kBadConfiguration, "--no-special-tokens is given with --chat; what a message spells out stays text ",
         "anyway: remove it");
  Console messages(stderr);
  const TextGenerator generator(request.generation, messages);
  std::vector<int32_t> prompt = prompt_tokens(generator, request, messages);
  if (prompt.empty())
    fail(ExitCode::kBadConfiguration,
         "--prompt is empty and the tokenizer adds nothing to it; expected at least one token");
  // On a terminal a single completion is shown as it grows.
  const bool grows = isatty(STDOUT_FILENO) == 1 && request.samples == 1 && !request.json;
  const auto show = [&](std::string_view piece) {
    write_out(visible(piece, request));
    std::fflush(stdout);
  };
  if (grows) generator.print_settings(messages);
  const std::vector<Rollout> rollouts =
      generator.generate(std::move(prompt), request.samples, grows ? show : std::function<void(std::string_view)>());
  if (!grows) generator.print_settings(messages);
  for (const Rollout& rollout : rollouts)
    if (request.json)
      print_json(rollout, generator);
    else
      write_out((grows ? "" : visible(generator.completion_text(rollout), request)) + "\n");
  return ExitCode::kDone;
}

}  // namespace

CommandHandler add_generate(CommandLine& line) {
  const auto request = std::make_shared<Request>();
  Command command = line.add("generate", "Sample from a model, with log-probs");
  add_model_option(command, "--model", request->generation);
  command
      .option("--prompt", request->prompt,
              "The text to go on from, or the user's message with --chat; - reads it from standard input, without the "
              "end of its last line")
      .required();
  command.option(
      "--system", request->generation.system,
      "A system message, with --chat; without it data.system_prompt of the run whose checkpoint the model is");
  command.option("-n", request->samples, "Completions").between(1, 1 << 16);
  add_generation_options(command, request->generation);
  command.flag("--chat", request->chat, "Put the prompt through the model's chat template");
  command.flag("--no-special-tokens", request->special_as_text,
               "Special tokens that a plain prompt spells out, such as <|im_start|>, stay text; without it they are "
               "those tokens, as in training");
  const Argument json = command.flag("--json", request->json,
                                     "One object per line and sample: tokens, logprobs, text, finish_reason, "
                                     "and the seed where the temperature is above 0");
  command
      .flag("--raw", request->raw,
            "The text byte for byte; without it control characters other than newlines and tabs are shown as "
            "\\x1b and so on")
      .excludes(json);
  return [request] { return generate(*request); };
}

}  // namespace keel::cli
