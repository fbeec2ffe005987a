#include "cli/text_generator.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <random>
#include <sstream>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/hash.h"
#include "keel/core/interrupt.h"
#include "keel/core/nearest.h"
#include "keel/core/options/read_config.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/precision.h"
#include "keel/data/data_options.h"
#include "keel/model/folder/adapter_folder.h"
#include "keel/ops/sampler.h"
#include "keel/rollout/engine.h"
#include "keel/train/checkpoint/run_models.h"
#include "keel/train/start/starting_model.h"
#include "libs/hftext/chat/chat_encoding.h"

namespace keel::cli {
namespace {

constexpr int64_t kDefaultNewTokens = 256;

/// CLI11's Range accepts NaN.
Check number_between(double low, double high, bool or_zero) {
  return [=](const std::string& text) {
    const std::optional<double> value = parse_double(text);
    const bool fits = value && ((*value >= low && *value <= high) || (or_zero && *value == 0));
    std::ostringstream error;
    if (!fits) error << text << "; expected " << (or_zero ? "0, or " : "") << "a number from " << low << " to " << high;
    return error.str();
  };
}

/// CLI11's error would show a range of 309 digits.
Check whole_number() {
  return [](const std::string& text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size()
               ? std::string()
               : text + "; expected a whole number from 0 to 18446744073709551615";
  };
}

Check not_empty() {
  return [](const std::string& text) {
    return text.empty() ? std::string("an empty stop string would end every completion; remove it") : std::string();
  };
}

/// Replaces CLI11's IsMember, whose error has no suggestion.
void require_one_of(Argument argument, const std::vector<std::string>& choices) {
  argument.suggest(choices).check([=](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) != choices.end()) return std::string();
    const std::optional<std::string> suggestion = nearest_name(text, choices);
    return text + "; expected " + joined(choices, " or ") + (suggestion ? "; did you mean " + *suggestion + "?" : "");
  });
}

TemplateVariables template_kwargs_for(const GenerationArguments& arguments, const ChatSettings& run) {
  return {parse_date(arguments.date.empty() ? kTemplateDate : arguments.date, "--date"),
          arguments.chat_template_kwargs
              ? parse_template_kwargs(*arguments.chat_template_kwargs, "--chat-template-word")
              : parse_template_kwargs(run.chat_template_kwargs, "data.chat_template_kwargs")};
}

/// Adds the stop strings of the run unless the command line has some.
GenerationFlags with_run_stop_strings(const ChatSettings& run, GenerationFlags flags) {
  if (!flags.stop_strings && !run.stop_strings.empty()) flags.stop_strings = run.stop_strings;
  return flags;
}

/// 32 bits, short enough to be typed.
uint64_t random_seed() { return std::random_device()(); }

/// Derives the sampling seed from seed and prompt: prompts get different noise, and the i-th completion of a prompt
/// does not depend on the number of completions.
uint64_t noise_seed(uint64_t seed, const std::vector<int32_t>& prompt) {
  std::string bytes(sizeof(seed) + prompt.size() * sizeof(int32_t), '\0');
  std::memcpy(bytes.data(), &seed, sizeof(seed));
  std::memcpy(bytes.data() + sizeof(seed), prompt.data(), prompt.size() * sizeof(int32_t));
  return std::stoull(sha256_hex(bytes).substr(0, 16), nullptr, 16);
}

/// Sets the number of threads first, since a checkpoint is verified in parallel.
std::string resolve_with_threads(const GenerationArguments& arguments, Console& messages) {
  use_threads(arguments.threads);
  return resolve_model(arguments.model, &messages);
}

LoadedModel load_with_adapter(const GenerationArguments& arguments, const std::string& name, Console& messages) {
  const std::string adapter = resolve_adapter(arguments.adapter, &messages);
  const at::Device device = open_device(arguments.device, "--device");
  const at::ScalarType type = compute_type(arguments.precision, device);
  LoadedModel loaded = load_trained_model(name, adapter, {device, type}, messages);
  loaded.model.set_compute_type(type);
  if (!is_narrow(type)) loaded.model = loaded.model.merged({});  // once, and not for every prompt
  return loaded;
}

/// Length of the prefix that later tokens cannot change: excludes an incomplete UTF-8 character and a possible start of
/// a stop string.
size_t stable_prefix_length(std::string_view text, const std::vector<std::string>& stop_strings) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // stands for an incomplete character
  size_t end = text.size();
  while (text.substr(0, end).ends_with(kReplacement)) end -= kReplacement.size();
  size_t possible_stop = 0;
  for (const std::string& stop : stop_strings)
    for (size_t length = std::min(stop.size(), end); length > possible_stop; --length)
      if (text.substr(0, end).ends_with(std::string_view(stop).substr(0, length))) possible_stop = length;
  return end - possible_stop;
}

/// Length of the common prefix of two texts, in whole UTF-8 characters. A token may change how earlier tokens are
/// decoded; text that one token left unchanged is likely to stay.
size_t common_prefix_length(std::string_view before, std::string_view after) {
  size_t end = static_cast<size_t>(std::mismatch(before.begin(), before.end(), after.begin(), after.end()).first -
                                   before.begin());
  const auto is_continuation = [&](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  while (end > 0 &&
         ((end < before.size() && is_continuation(before[end])) || (end < after.size() && is_continuation(after[end]))))
    --end;
  return end;
}

}  // namespace

ChatSettings read_chat_settings(const std::string& model) {
  ChatSettings chat;
  const std::filesystem::path checkpoints = std::filesystem::path(model).parent_path(),
                              config = checkpoints.parent_path() / "config.yaml";
  if (checkpoints.filename() != "checkpoints" || !path_exists(config)) return chat;
  const ConfigTree run = read_config(config.string());
  const Json* system = find_value(run, "data.system_prompt");
  if (system != nullptr && system->is_string()) chat.system_prompt = system->get<std::string>();
  const auto read_list = [&](const char* key, std::vector<std::string>& texts) {
    if (const Json* list = find_value(run, key); list != nullptr && list->is_array())
      for (const Json& text : *list)
        if (text.is_string() && text != "") texts.push_back(text.get<std::string>());
  };
  read_list("data.chat_template_kwargs", chat.chat_template_kwargs);
  read_list("rollout.stop_strings", chat.stop_strings);
  return chat;
}

void add_model_option(Command& command, const char* name, GenerationArguments& arguments) {
  command
      .option(name, arguments.model,
              "A Hugging Face model folder, a GGUF file, owner/name in the local cache, or the folder of a run: its "
              "newest valid checkpoint")
      .required()
      .files();
}

void add_generation_options(Command& command, GenerationArguments& arguments) {
  command
      .option("--adapter", arguments.adapter,
              "PEFT adapter (LoRA) folder to apply, or the folder of a run or checkpoint with an adapter")
      .folders();
  command.option("--date", arguments.date,
                 "Date for chat templates that use one, YYYY-MM-DD (default: 2024-07-26, as in training)");
  command
      .option("--chat-template-word", arguments.chat_template_kwargs,
              "Variable of the chat template, such as enable_thinking=false; repeatable (default: "
              "data.chat_template_kwargs of the model's run, else none)")
      .repeatable();
  command
      .option("--temperature", arguments.flags.temperature,
              "0 is greedy and reports log-probs at temperature 1; otherwise 0.0001 to 100 (default: the model's "
              "generation_config.json, else 1)")
      .check(number_between(kMinTemperature, kMaxTemperature, /*or_zero=*/true));
  command
      .option("--top-p", arguments.flags.top_p,
              "Nucleus sampling: cumulative probability (default: generation_config.json, else 1)")
      .check(number_between(1e-9, 1.0, /*or_zero=*/false));
  command
      .option("--top-k", arguments.flags.top_k,
              "Sample from the k likeliest tokens; 0: all (default: generation_config.json, else 0)")
      .between(0, 1 << 27);
  command
      .option("--min-p", arguments.flags.min_p,
              "Drop tokens below this fraction of the likeliest token's probability (default: generation_config.json, "
              "else 0)")
      .check(number_between(0, 1, /*or_zero=*/false));
  command
      .option("--stop", arguments.flags.stop_strings,
              "Stop string, not printed; repeatable (default: rollout.stop_strings of the model's run, else "
              "generation_config.json, else none)")
      .repeatable()
      .check(not_empty());
  command
      .option(
          "--max-new-tokens", arguments.flags.max_new_tokens,
          "Maximum completion length in tokens (default: generation_config.json, else 256; at most what the model's "
          "positions allow)")
      .between(1, 1 << 27);
  command.option("--seed", arguments.seed, "Sampling seed, an integer from 0 (default: random, printed)")
      .check(whole_number());
  require_one_of(command.option("--device", arguments.device,
                                "auto: the GPU if this build can use one, else the CPU (default: auto)"),
                 {"auto", "cpu", "cuda"});
  require_one_of(command.option("--precision", arguments.precision,
                                "Compute dtype of the network; auto: bf16 on a GPU, float32 on a CPU"),
                 {"auto", "float32", "bf16", "fp16"});
  command.option("--threads", arguments.threads, "CPU threads; 0: one per core").between(0, 1 << 12);
}

TextGenerator::TextGenerator(const GenerationArguments& arguments, Console& messages)
    : name_(resolve_with_threads(arguments, messages)),
      max_new_tokens_flag_(arguments.flags.max_new_tokens),
      system_flag_(arguments.system),
      has_seed_flag_(arguments.seed.has_value()),
      run_chat_settings_(read_chat_settings(name_)),
      loaded_(load_with_adapter(arguments, name_, messages)),
      settings_(generation_settings(loaded_.generation, with_run_stop_strings(run_chat_settings_, arguments.flags))),
      seed_(arguments.seed.value_or(random_seed())),
      template_kwargs_(template_kwargs_for(arguments, run_chat_settings_)) {
  if (arguments.chat_template_kwargs)
    PromptEncoder(loaded_.tokenizer, loaded_.templates)
        .require_template_variables(template_kwargs_.kwargs, "--chat-template-word");
  else if (!template_kwargs_.kwargs.empty())
    settings_.notes.push_back("chat template variables of the run (--chat-template-word overrides): " +
                              template_kwargs_.kwargs.dump(-1, ' ', false, Json::error_handler_t::replace));
  if (!arguments.flags.stop_strings && !run_chat_settings_.stop_strings.empty())
    settings_.notes.push_back(
        "stop strings of the run (--stop overrides): " +
        Json(run_chat_settings_.stop_strings).dump(-1, ' ', false, Json::error_handler_t::replace));
}

void TextGenerator::print_settings(Console& messages) const {
  for (const std::string& note : settings_.notes) messages.line(note);
  if (!has_seed_flag_ && seed()) messages.line("seed " + std::to_string(*seed()));
}

std::string TextGenerator::system_prompt(Console& messages) const {
  if (system_flag_) return *system_flag_;
  if (!run_chat_settings_.system_prompt.empty())
    messages.line("system prompt of the run (--system '' for none): " +
                  escape_controls(run_chat_settings_.system_prompt, Newlines::kKeep));
  return run_chat_settings_.system_prompt;
}

std::vector<int32_t> TextGenerator::encode(const Json& messages) const {
  return encode_chat(loaded_, messages, template_kwargs_);
}

/// The maximum completion length. --max-new-tokens must fit into the model's positions; the file's value and the
/// default are lowered to fit.
int64_t TextGenerator::resolve_max_new_tokens(size_t prompt_tokens) const {
  const int64_t positions = loaded_.model.config().max_position_embeddings;
  const int64_t available = positions - static_cast<int64_t>(prompt_tokens);
  if (available < 1)
    fail(ExitCode::kBadConfiguration, "the prompt has ", prompt_tokens, " tokens, but the model has ", positions,
         " positions; shorten the prompt to at most ", positions - 1, " tokens");
  if (max_new_tokens_flag_.value_or(0) > available)
    fail(ExitCode::kBadConfiguration, "the prompt has ", prompt_tokens, " tokens and --max-new-tokens is ",
         *max_new_tokens_flag_, ", but the model has ", positions, " positions; lower --max-new-tokens to at most ",
         available);
  if (!settings_.max_length) return std::min(settings_.max_new_tokens.value_or(kDefaultNewTokens), available);
  const int64_t left = *settings_.max_length - static_cast<int64_t>(prompt_tokens);
  if (left < 1)
    fail(ExitCode::kBadConfiguration, "the prompt has ", prompt_tokens, " tokens, and max_length of the model's ",
         "generation_config.json is ", *settings_.max_length,
         " for prompt and completion together; set --max-new-tokens");
  return std::min(left, available);
}

std::vector<Rollout> TextGenerator::generate(std::vector<int32_t> tokens, int64_t samples,
                                             const std::function<void(std::string_view)>& on_text) const {
  Prompt prompt;
  prompt.tokens = std::move(tokens);
  const SamplingRequest sampling{.samples_per_prompt = samples,
                                 .temperature = settings_.temperature,
                                 .filter = settings_.filter,
                                 .max_new_tokens = resolve_max_new_tokens(prompt.tokens.size()),
                                 .stop_ids = loaded_.stop_ids,
                                 .stop_strings = settings_.stop_strings,
                                 .seed = noise_seed(seed_, prompt.tokens),
                                 .memory_hint = "lower -n or --max-new-tokens"};
  const RolloutEngine engine(SamplingModel({loaded_.model}), loaded_.tokenizer);
  if (!on_text) return engine.generate({&prompt, 1}, sampling);
  Decoding decoding = engine.submit({&prompt, 1}, sampling);
  std::string printed, before;
  const auto print = [&](const std::string& text, size_t end) {
    if (end <= printed.size() || !text.starts_with(printed)) return;
    on_text(std::string_view(text).substr(printed.size(), end - printed.size()));
    printed = text.substr(0, end);
  };
  while (!decoding.done()) {
    throw_if_stopped();
    decoding.poll();
    if (decoding.done()) break;
    const std::string text = completion_text(decoding.rollouts().front());
    print(text, std::min(stable_prefix_length(text, settings_.stop_strings), common_prefix_length(before, text)));
    before = text;
  }
  std::vector<Rollout> rollouts = decoding.take();
  const std::string text = completion_text(rollouts.front());
  if (text.starts_with(printed))
    print(text, text.size());
  else
    on_text("\n" + text);  // printed text cannot be changed
  return rollouts;
}

std::string TextGenerator::completion_text(const Rollout& rollout) const {
  if (rollout.finish == Finish::kStopString) return rollout.text;
  const size_t length = rollout.tokens.size() - (rollout.finish == Finish::kStop ? 1 : 0);
  return loaded_.tokenizer.decode(std::span(rollout.tokens.ids).first(length));
}

}  // namespace keel::cli
