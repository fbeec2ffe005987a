#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <sstream>

#include "cli/commands.h"
#include "cli/generation_settings.h"
#include "keel/core/console.h"
#include "keel/core/files/file.h"
#include "keel/core/files/hash.h"
#include "keel/core/files/json_file.h"
#include "keel/core/nearest.h"
#include "keel/core/options/read_config.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/precision.h"
#include "keel/data/data_options.h"
#include "keel/model/folder/adapter_folder.h"
#include "keel/model/loaded_model.h"
#include "keel/model/network/lora_options.h"
#include "keel/ops/sampler.h"
#include "keel/rollout/engine.h"
#include "keel/text/chat/chat_encoding.h"
#include "keel/train/checkpoint/run_models.h"
#include "keel/train/start/starting_model.h"

namespace keel::cli {
namespace {

constexpr int64_t kDefaultNewTokens = 256;

struct Request {
  std::string model, adapter, prompt, system, date, device = "cpu", precision = "auto";
  int64_t samples = 1, threads = 0;
  GenerationFlags flags;
  std::optional<uint64_t> seed;
  bool chat = false, special_as_text = false, json = false, raw = false;
};

/// CLI11's own Range lets nan pass.
Check number_between(double low, double high, bool or_zero) {
  return [=](const std::string& text) {
    const std::optional<double> value = number_in(text);
    const bool fits = value && ((*value >= low && *value <= high) || (or_zero && *value == 0));
    std::ostringstream wanted;
    if (!fits) wanted << text << "; wanted " << (or_zero ? "0, or " : "") << "a number from " << low << " to " << high;
    return wanted.str();
  };
}

/// CLI11's own words name a range of 309 digits.
Check whole_number() {
  return [](const std::string& text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size()
               ? std::string()
               : text + "; wanted a whole number from 0 to 18446744073709551615";
  };
}

Check not_empty() {
  return [](const std::string& text) {
    return text.empty() ? std::string("an empty text would end every completion; leave it out") : std::string();
  };
}

/// CLI11's own IsMember has no hint.
Check one_of(const std::vector<std::string>& choices) {
  return [=](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) != choices.end()) return std::string();
    const std::optional<std::string> near = nearest_name(text, choices);
    return text + "; wanted " + joined(choices, " or ") + (near ? "; did you mean " + *near + "?" : "");
  };
}

/// What a template that asks for the date is told: the same as in the run that the model is a checkpoint of, or in any
/// run where nothing else is said.
std::tm date_of_chat(const std::string& model, const std::string& asked) {
  if (!asked.empty()) return date_of(asked, "--date");
  const std::filesystem::path checkpoints = std::filesystem::path(model).parent_path(),
                              config = checkpoints.parent_path() / "config.yaml";
  if (checkpoints.filename() != "checkpoints" || !path_exists(config)) return date_of(DataOptions().date, "data.date");
  const ConfigTree run = read_config(config.string());
  const Json* date = find_value(run, "data.date");
  return date_of(date != nullptr && date->is_string() ? date->get<std::string>() : DataOptions().date, "data.date");
}

std::vector<int32_t> prompt_tokens(const LoadedModel& loaded, const std::string& model, const Request& request) {
  if (!request.chat) return encode_text(loaded, request.prompt, !request.special_as_text);
  Json messages = Json::array();
  if (!request.system.empty()) messages.push_back({{"role", "system"}, {"content", request.system}});
  messages.push_back({{"role", "user"}, {"content", request.prompt}});
  return encode_chat(loaded, messages, date_of_chat(model, request.date));
}

/// Short enough to be typed again.
uint64_t random_seed() { return std::random_device()(); }

/// What keys the noise: another prompt has other noise under the same seed, and the i-th completion of a prompt is the
/// same whatever the number of completions.
uint64_t noise_seed(uint64_t seed, const std::vector<int32_t>& prompt) {
  std::string bytes(sizeof(seed) + prompt.size() * sizeof(int32_t), '\0');
  std::memcpy(bytes.data(), &seed, sizeof(seed));
  std::memcpy(bytes.data() + sizeof(seed), prompt.data(), prompt.size() * sizeof(int32_t));
  return std::stoull(sha256_hex(bytes).substr(0, 16), nullptr, 16);
}

/// Tokens of the longest completion: what a flag asks for must fit into the model's positions; the file's number and
/// our own default give way.
int64_t longest_completion(const LoadedModel& loaded, size_t prompt_tokens, const GenerationSettings& settings,
                           const std::optional<int64_t>& asked) {
  const int64_t positions = loaded.model.config().max_position_embeddings;
  const int64_t room = positions - static_cast<int64_t>(prompt_tokens);
  if (room < 1)
    fail(ExitCode::kBadConfiguration, "the prompt has ", prompt_tokens, " tokens, but the model has ", positions,
         " positions; shorten the prompt to at most ", positions - 1, " tokens");
  if (asked.value_or(0) > room)
    fail(ExitCode::kBadConfiguration, "the prompt has ", prompt_tokens, " tokens and --max-new-tokens is ", *asked,
         ", but the model has ", positions, " positions; lower --max-new-tokens to at most ", room);
  if (!settings.max_length) return std::min(settings.max_new_tokens.value_or(kDefaultNewTokens), room);
  const int64_t left = *settings.max_length - static_cast<int64_t>(prompt_tokens);
  if (left < 1)
    fail(ExitCode::kBadConfiguration, "the prompt has ", prompt_tokens, " tokens, and max_length of the model's ",
         "generation_config.json is ", *settings.max_length, ", prompt and completion together; give --max-new-tokens");
  return std::min(left, room);
}

/// `seed` is nothing where nothing was random.
void print(const Rollout& rollout, std::optional<uint64_t> seed, const LoadedModel& loaded, const Request& request) {
  const size_t spoken = rollout.tokens.size() - (rollout.finish == Finish::kStop ? 1 : 0);  // the stop token is no part
  const std::string text = rollout.finish == Finish::kStopString
                               ? rollout.text
                               : loaded.tokenizer.decode(std::span(rollout.tokens).first(spoken));
  if (!request.json) {
    std::printf("%s\n", (request.raw ? text : escape_controls(text, Newlines::kKeep)).c_str());
    return;
  }
  Json row = {{"tokens", rollout.tokens},
              {"logprobs", rollout.behavior_logp},
              {"text", text},
              {"finish_reason", finish_name(rollout.finish)}};
  if (seed) row["seed"] = *seed;
  std::printf("%s\n", escape_json_controls(json_line(row)).c_str());
}

ExitCode generate(const Request& request) {
  if (!request.system.empty() && !request.chat)
    fail(ExitCode::kBadConfiguration, "--system is given without --chat; a plain prompt has no system message: add ",
         "--chat, or write the text into --prompt");
  if (!request.date.empty() && !request.chat)
    fail(ExitCode::kBadConfiguration, "--date is given without --chat; it is for chat templates that ask: add --chat");
  if (request.special_as_text && request.chat)
    fail(ExitCode::kBadConfiguration, "--no-special-tokens is given with --chat; what a message spells out stays text ",
         "anyway: remove it");
  use_threads(request.threads);
  Console messages(stderr);
  const std::string model = model_named(request.model, &messages), adapter = adapter_named(request.adapter, &messages);
  LoadedModel loaded = load_whole_model(model, open_device(request.device, "--device"));
  if (!adapter.empty()) {
    require_base_of_adapter(model, adapter, "--adapter");
    read_adapter(adapter, loaded.model);
    loaded.model = loaded.model.merged();
  }
  loaded.model.compute_in(compute_type(request.precision, loaded.model.device()));
  Prompt prompt;
  prompt.tokens = prompt_tokens(loaded, model, request);
  if (prompt.tokens.empty())
    fail(ExitCode::kBadConfiguration,
         "--prompt is empty and the tokenizer adds nothing to it; wanted at least one token");
  const GenerationSettings settings = generation_settings(loaded.generation, request.flags);
  const int64_t longest = longest_completion(loaded, prompt.tokens.size(), settings, request.flags.max_new_tokens);
  const uint64_t seed = request.seed.value_or(random_seed());
  const SamplingRequest sampling{.samples_per_prompt = request.samples,
                                 .temperature = settings.temperature,
                                 .truncation = settings.truncation,
                                 .max_new_tokens = longest,
                                 .stop_ids = loaded.stop_ids,
                                 .stop_strings = settings.stop_strings,
                                 .seed = noise_seed(seed, prompt.tokens),
                                 .way_to_need_less = "lower -n or --max-new-tokens"};
  const std::vector<Rollout> rollouts = RolloutEngine(loaded.model, loaded.tokenizer).generate({&prompt, 1}, sampling);
  for (const std::string& note : settings.notes) messages.line(note);
  const bool random = settings.temperature > 0;
  if (!request.seed && random) messages.line("seed " + std::to_string(seed));
  for (const Rollout& rollout : rollouts) print(rollout, random ? std::optional(seed) : std::nullopt, loaded, request);
  return ExitCode::kDone;
}

}  // namespace

Action add_generate(CommandLine& line) {
  const auto request = std::make_shared<Request>();
  Command command = line.add("generate", "Sample from a model, with log-probs");
  command
      .option("--model", request->model,
              "A Hugging Face model folder, a GGUF file, owner/name in the local cache, or the folder of a run: its "
              "newest sound checkpoint")
      .required();
  command.option("--adapter", request->adapter,
                 "Folder of a PEFT adapter (LoRA) to put on the model, or of a run or checkpoint that has one");
  command.option("--prompt", request->prompt, "The text to go on from, or the user's message with --chat").required();
  command.option("--system", request->system, "A system message, with --chat");
  command.option("--date", request->date,
                 "Today, for chat templates that ask: YYYY-MM-DD. Without it data.date of the run whose checkpoint the "
                 "model is, else the default of data.date");
  command.option("-n", request->samples, "Completions").between(1, 1 << 16);
  command
      .option("--temperature", request->flags.temperature,
              "0 takes the likeliest token and reports untempered log-probs; otherwise 0.0001 to 100. Without it "
              "the model's generation_config.json decides, else 1")
      .check(number_between(kMinTemperature, kMaxTemperature, /*or_zero=*/true));
  command
      .option("--top-p", request->flags.top_p,
              "Sample from the likeliest tokens with this much probability; without it as the file says, else 1")
      .check(number_between(1e-9, 1.0, /*or_zero=*/false));
  command
      .option("--top-k", request->flags.top_k,
              "Sample from this many of the likeliest tokens, 0 from all; without it as the file says, else 0")
      .between(0, 1 << 27);
  command
      .option("--min-p", request->flags.min_p,
              "Leave out tokens with less than this share of the likeliest one's probability; without it as the "
              "file says, else 0")
      .check(number_between(0, 1, /*or_zero=*/false));
  command
      .option("--stop", request->flags.stop_strings,
              "A text that ends a completion, which is printed up to it; may be given several times. Without "
              "it as the file says, else none")
      .one_at_a_time()
      .check(not_empty());
  command
      .option("--max-new-tokens", request->flags.max_new_tokens,
              "Longest completion; without it as the file says, else 256, or what the model's positions leave")
      .between(1, 1 << 27);
  command
      .option("--seed", request->seed,
              "Of the sampling noise, a whole number from 0 on; without it one is drawn and printed")
      .check(whole_number());
  command.option("--device", request->device, "cpu or cuda").check(one_of({"cpu", "cuda"}));
  command
      .option("--precision", request->precision,
              "What the network computes in; auto is bf16 on a GPU and float32 on a CPU")
      .check(one_of({"auto", "float32", "bf16", "fp16"}));
  command.option("--threads", request->threads, "CPU threads; 0 means one per core").between(0, 1 << 12);
  command.flag("--chat", request->chat, "Put the prompt through the model's chat template");
  command.flag("--no-special-tokens", request->special_as_text,
               "Special tokens that a plain prompt spells out, such as <|im_start|>, stay text; without it they are "
               "those tokens, as in training (data.special_tokens)");
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
