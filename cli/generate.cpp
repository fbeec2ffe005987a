#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>

#include "cli/commands.h"
#include "keel/core/device.h"
#include "keel/core/json_file.h"
#include "keel/model/loaded_model.h"
#include "keel/model/lora.h"
#include "keel/rollout/engine.h"
#include "keel/rollout/sampler.h"

namespace keel::cli {
namespace {

constexpr int64_t kDefaultNewTokens = 256;

struct Request {
  std::string model, adapter, prompt, system, device = "cpu";
  int64_t samples = 1, threads = 0;
  std::optional<int64_t> max_new_tokens;
  uint64_t seed = 0;
  double temperature = 1.0, top_p = 1.0;
  bool chat = false, json = false;
};

/// CLI11's own Range lets nan pass.
CLI::Validator number_between(double low, double high, bool or_zero) {
  const auto check = [=](const std::string& text) {
    double value = 0;
    const bool fits =
        CLI::detail::lexical_cast(text, value) && ((value >= low && value <= high) || (or_zero && value == 0));
    std::ostringstream wanted;
    if (!fits) wanted << text << "; wanted " << (or_zero ? "0, or " : "") << "a number from " << low << " to " << high;
    return wanted.str();
  };
  return CLI::Validator(check, "");
}

std::vector<int32_t> prompt_tokens(const LoadedModel& loaded, const Request& request) {
  if (!request.chat) return encode_text(loaded, request.prompt);
  Json messages = Json::array();
  if (!request.system.empty()) messages.push_back({{"role", "system"}, {"content", request.system}});
  messages.push_back({{"role", "user"}, {"content", request.prompt}});
  return encode_chat(loaded, messages);
}

void print(const Rollout& rollout, const LoadedModel& loaded, const Request& request) {
  const bool stopped = rollout.finish == Finish::kStop;
  const size_t spoken = rollout.tokens.size() - (stopped ? 1 : 0);  // the stop token is no part of the text
  const std::string text = loaded.tokenizer.decode(std::span(rollout.tokens).first(spoken));
  if (!request.json) {
    std::printf("%s\n", text.c_str());
    return;
  }
  const Json row = {{"tokens", rollout.tokens},
                    {"logprobs", rollout.behavior_logp},
                    {"text", text},
                    {"finish_reason", stopped ? "stop" : "length"}};
  std::printf("%s\n", json_line(row).c_str());
}

ExitCode generate(const Request& request) {
  if (!request.system.empty() && !request.chat)
    fail(ExitCode::kBadConfiguration, "--system is given without --chat; a plain prompt has no system message: add ",
         "--chat, or write the text into --prompt");
  use_threads(request.threads);
  LoadedModel loaded = load_model(request.model, open_device(request.device, "--device"));
  if (!request.adapter.empty()) {
    read_adapter(request.adapter, loaded.model);
    loaded.model = loaded.model.merged();
  }
  Prompt prompt;
  prompt.tokens = prompt_tokens(loaded, request);
  if (prompt.tokens.empty())
    fail(ExitCode::kBadConfiguration,
         "--prompt is empty and the tokenizer adds nothing to it; wanted at least one token");
  const int64_t positions = loaded.model.config().max_position_embeddings;
  const int64_t room = positions - static_cast<int64_t>(prompt.tokens.size());
  if (room < 1)
    fail(ExitCode::kBadConfiguration, "the prompt has ", prompt.tokens.size(), " tokens, but the model has ", positions,
         " positions; shorten the prompt to at most ", positions - 1, " tokens");
  const int64_t max_new_tokens = request.max_new_tokens.value_or(std::min(kDefaultNewTokens, room));
  if (max_new_tokens > room)
    fail(ExitCode::kBadConfiguration, "the prompt has ", prompt.tokens.size(), " tokens and --max-new-tokens is ",
         max_new_tokens, ", but the model has ", positions, " positions; lower --max-new-tokens to at most ", room);
  const SamplingRequest sampling{.samples_per_prompt = request.samples,
                                 .temperature = request.temperature,
                                 .top_p = request.top_p,
                                 .max_new_tokens = max_new_tokens,
                                 .stop_ids = loaded.stop_ids,
                                 .seed = request.seed};
  for (const Rollout& rollout : RolloutEngine(loaded.model, loaded.tokenizer).generate({&prompt, 1}, sampling))
    print(rollout, loaded, request);
  return ExitCode::kDone;
}

}  // namespace

Action add_generate(CLI::App& app) {
  const auto request = std::make_shared<Request>();
  CLI::App* command = app.add_subcommand("generate", "Sample from a model, with log-probs");
  command
      ->add_option("--model", request->model,
                   "A Hugging Face model folder, a GGUF file, or owner/name in the local cache")
      ->required();
  command->add_option("--adapter", request->adapter, "Folder of a PEFT adapter (LoRA) to put on the model");
  command->add_option("--prompt", request->prompt, "The text to go on from, or the user's message with --chat")
      ->required();
  command->add_option("--system", request->system, "A system message, with --chat");
  command->add_option("-n", request->samples, "Completions")->check(CLI::Range(1, 1 << 16));
  command
      ->add_option("--temperature", request->temperature,
                   "0 takes the likeliest token and reports untempered log-probs; otherwise 0.0001 to 100")
      ->check(number_between(kMinTemperature, kMaxTemperature, /*or_zero=*/true));
  command->add_option("--top-p", request->top_p, "Sample from the likeliest tokens with this much probability")
      ->check(number_between(1e-9, 1.0, /*or_zero=*/false));
  command
      ->add_option("--max-new-tokens", request->max_new_tokens,
                   "Longest completion; without it 256, or what the model's positions leave")
      ->check(CLI::Range(1, 1 << 27));
  command->add_option("--seed", request->seed, "Of the sampling noise; a whole number from 0 on")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--device", request->device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--threads", request->threads, "CPU threads; 0 means one per core")
      ->check(CLI::Range(0, 1 << 12));
  command->add_flag("--chat", request->chat, "Put the prompt through the model's chat template");
  command->add_flag("--json", request->json, "One object per line and sample: tokens, logprobs, text, finish_reason");
  return [request] { return generate(*request); };
}

}  // namespace keel::cli
