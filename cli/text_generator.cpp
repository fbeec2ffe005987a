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

/// CLI11's own Range lets nan pass.
Check number_between(double low, double high, bool or_zero) {
  return [=](const std::string& text) {
    const std::optional<double> value = parse_double(text);
    const bool fits = value && ((*value >= low && *value <= high) || (or_zero && *value == 0));
    std::ostringstream wanted;
    if (!fits)
      wanted << text << "; expected " << (or_zero ? "0, or " : "") << "a number from " << low << " to " << high;
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
               : text + "; expected a whole number from 0 to 18446744073709551615";
  };
}

Check not_empty() {
  return [](const std::string& text) {
    return text.empty() ? std::string("an empty text would end every completion; leave it out") : std::string();
  };
}

/// CLI11's own IsMember has no hint.
void require_one_of(Argument argument, const std::vector<std::string>& choices) {
  argument.words(choices).check([=](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) != choices.end()) return std::string();
    const std::optional<std::string> near = nearest_name(text, choices);
    return text + "; expected " + joined(choices, " or ") + (near ? "; did you mean " + *near + "?" : "");
  });
}

TemplateWords template_kwargs_for(const GenerationArguments& asked, const ChatSettings& run) {
  return {date_of(asked.date.empty() ? kTemplateDate : asked.date, "--date"),
          asked.chat_template_kwargs ? parse_template_kwargs(*asked.chat_template_kwargs, "--chat-template-word")
                                     : parse_template_kwargs(run.chat_template_kwargs, "data.chat_template_kwargs")};
}

/// What a run ends its completions at counts where nothing is asked for.
GenerationFlags with_run_stop_strings(const ChatSettings& run, GenerationFlags flags) {
  if (!flags.stop_strings && !run.stop_strings.empty()) flags.stop_strings = run.stop_strings;
  return flags;
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

LoadedModel load_with_adapter(const GenerationArguments& arguments, const std::string& name, Console& messages) {
  const std::string adapter = resolve_adapter(arguments.adapter, &messages);
  LoadedModel loaded = load_verified_model(name, open_device(arguments.device, "--device"));
  if (!adapter.empty()) {
    require_adapter_base(name, adapter, "--adapter");
    read_adapter(adapter, loaded.model);
    loaded.model = loaded.model.merged({});
  }
  loaded.model.set_compute_type(compute_type(arguments.precision, loaded.model.device()));
  return loaded;
}

/// How much of a text is certain to stay as it is: not the beginning of a character whose other bytes are still to
/// come, nor what may turn out to be the beginning of a text that ends it all.
size_t stable_prefix_length(std::string_view text, const std::vector<std::string>& stop_strings) {
  constexpr std::string_view kUnfinished = "\xEF\xBF\xBD";  // what the bytes of half a character are decoded to
  size_t end = text.size();
  while (text.substr(0, end).ends_with(kUnfinished)) end -= kUnfinished.size();
  size_t held = 0;
  for (const std::string& stop : stop_strings)
    for (size_t length = std::min(stop.size(), end); length > held; --length)
      if (text.substr(0, end).ends_with(std::string_view(stop).substr(0, length))) held = length;
  return end - held;
}

/// Bytes of whole characters that two texts begin with. A token may change how those before it are decoded: bytes that
/// were characters become marks for none when one is added that makes no character with them. What has stayed through a
/// token is likely to stay.
size_t common_prefix_length(std::string_view a, std::string_view b) {
  size_t end = static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const auto continues = [&](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  while (end > 0 && ((end < a.size() && continues(a[end])) || (end < b.size() && continues(b[end])))) --end;
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
  const auto take_list = [&](const char* key, std::vector<std::string>& to) {
    if (const Json* said = find_value(run, key); said != nullptr && said->is_array())
      for (const Json& text : *said)
        if (text.is_string() && text != "") to.push_back(text.get<std::string>());
  };
  take_list("data.chat_template_kwargs", chat.chat_template_kwargs);
  take_list("rollout.stop_strings", chat.stop_strings);
  return chat;
}

void add_model_option(Command& command, const char* name, GenerationArguments& arguments) {
  command
      .option(name, arguments.model,
              "A Hugging Face model folder, a GGUF file, owner/name in the local cache, or the folder of a run: its "
              "newest sound checkpoint")
      .required()
      .files();
}

void add_generation_options(Command& command, GenerationArguments& arguments) {
  command
      .option("--adapter", arguments.adapter,
              "Folder of a PEFT adapter (LoRA) to put on the model, or of a run or checkpoint that has one")
      .folders();
  command.option("--date", arguments.date,
                 "Today, for chat templates that ask: YYYY-MM-DD. Without it 2024-07-26, as in training");
  command
      .option("--chat-template-word", arguments.chat_template_kwargs,
              "What else the chat template is told, as enable_thinking=false; may be given several times. Without it "
              "data.chat_template_kwargs of the run whose checkpoint the model is, else none")
      .repeatable();
  command
      .option("--temperature", arguments.flags.temperature,
              "0 takes the likeliest token and reports untempered log-probs; otherwise 0.0001 to 100. Without it "
              "the model's generation_config.json decides, else 1")
      .check(number_between(kMinTemperature, kMaxTemperature, /*or_zero=*/true));
  command
      .option("--top-p", arguments.flags.top_p,
              "Sample from the likeliest tokens with this much probability; without it as the file says, else 1")
      .check(number_between(1e-9, 1.0, /*or_zero=*/false));
  command
      .option("--top-k", arguments.flags.top_k,
              "Sample from this many of the likeliest tokens, 0 from all; without it as the file says, else 0")
      .between(0, 1 << 27);
  command
      .option("--min-p", arguments.flags.min_p,
              "Leave out tokens with less than this share of the likeliest one's probability; without it as the "
              "file says, else 0")
      .check(number_between(0, 1, /*or_zero=*/false));
  command
      .option("--stop", arguments.flags.stop_strings,
              "A text that ends a completion, which is printed up to it; may be given several times. Without "
              "it rollout.stop_strings of the run whose checkpoint the model is, or as the file says, else none")
      .repeatable()
      .check(not_empty());
  command
      .option("--max-new-tokens", arguments.flags.max_new_tokens,
              "Longest completion; without it as the file says, else 256, or what the model's positions leave")
      .between(1, 1 << 27);
  command
      .option("--seed", arguments.seed,
              "Of the sampling noise, a whole number from 0 on; without it one is drawn and printed")
      .check(whole_number());
  require_one_of(command.option("--device", arguments.device, "cpu or cuda"), {"cpu", "cuda"});
  require_one_of(command.option("--precision", arguments.precision,
                                "What the network computes in; auto is bf16 on a GPU and float32 on a CPU"),
                 {"auto", "float32", "bf16", "fp16"});
  command.option("--threads", arguments.threads, "CPU threads; 0 means one per core").between(0, 1 << 12);
}

TextGenerator::TextGenerator(const GenerationArguments& arguments, Console& messages)
    : name_((use_threads(arguments.threads), resolve_model(arguments.model, &messages))),
      max_new_tokens_flag_(arguments.flags.max_new_tokens),
      system_flag_(arguments.system),
      has_seed_flag_(arguments.seed.has_value()),
      run_chat_settings_(read_chat_settings(name_)),
      loaded_(load_with_adapter(arguments, name_, messages)),
      settings_(generation_settings(loaded_.generation, with_run_stop_strings(run_chat_settings_, arguments.flags))),
      seed_(arguments.seed.value_or(random_seed())),
      template_kwargs_(template_kwargs_for(arguments, run_chat_settings_)) {
  if (arguments.chat_template_kwargs)
    PromptEncoder(loaded_.tokenizer, loaded_.templates).require_known(template_kwargs_.others, "--chat-template-word");
  else if (!template_kwargs_.others.empty())
    settings_.notes.push_back("words of the run for the chat template (--chat-template-word for others): " +
                              template_kwargs_.others.dump(-1, ' ', false, Json::error_handler_t::replace));
  if (!arguments.flags.stop_strings && !run_chat_settings_.stop_strings.empty())
    settings_.notes.push_back(
        "stop strings of the run (--stop for others): " +
        Json(run_chat_settings_.stop_strings).dump(-1, ' ', false, Json::error_handler_t::replace));
}

void TextGenerator::print_settings(Console& messages) const {
  for (const std::string& note : settings_.notes) messages.line(note);
  if (!has_seed_flag_ && seed()) messages.line("seed " + std::to_string(*seed()));
}

std::string TextGenerator::system_prompt(Console& messages) const {
  if (system_flag_) return *system_flag_;
  if (!run_chat_settings_.system_prompt.empty())
    messages.line("system message of the run (--system '' for none): " +
                  escape_controls(run_chat_settings_.system_prompt, Newlines::kKeep));
  return run_chat_settings_.system_prompt;
}

std::vector<int32_t> TextGenerator::encode(const Json& messages) const {
  return encode_chat(loaded_, messages, template_kwargs_);
}

/// Tokens of the longest completion: what a flag asks for must fit into the model's positions; the file's number and
/// our own default give way.
int64_t TextGenerator::resolve_max_new_tokens(size_t prompt_tokens) const {
  const int64_t positions = loaded_.model.config().max_position_embeddings;
  const int64_t room = positions - static_cast<int64_t>(prompt_tokens);
  if (room < 1)
    fail(ExitCode::kBadConfiguration, "the prompt has ", prompt_tokens, " tokens, but the model has ", positions,
         " positions; shorten the prompt to at most ", positions - 1, " tokens");
  if (max_new_tokens_flag_.value_or(0) > room)
    fail(ExitCode::kBadConfiguration, "the prompt has ", prompt_tokens, " tokens and --max-new-tokens is ",
         *max_new_tokens_flag_, ", but the model has ", positions, " positions; lower --max-new-tokens to at most ",
         room);
  if (!settings_.max_length) return std::min(settings_.max_new_tokens.value_or(kDefaultNewTokens), room);
  const int64_t left = *settings_.max_length - static_cast<int64_t>(prompt_tokens);
  if (left < 1)
    fail(ExitCode::kBadConfiguration, "the prompt has ", prompt_tokens, " tokens, and max_length of the model's ",
         "generation_config.json is ", *settings_.max_length,
         ", prompt and completion together; give --max-new-tokens");
  return std::min(left, room);
}

std::vector<Rollout> TextGenerator::generate(std::vector<int32_t> tokens, int64_t samples,
                                             const std::function<void(std::string_view)>& shown) const {
  Prompt prompt;
  prompt.tokens = std::move(tokens);
  const SamplingRequest sampling{.samples_per_prompt = samples,
                                 .temperature = settings_.temperature,
                                 .truncation = settings_.truncation,
                                 .max_new_tokens = resolve_max_new_tokens(prompt.tokens.size()),
                                 .stop_ids = loaded_.stop_ids,
                                 .stop_strings = settings_.stop_strings,
                                 .seed = noise_seed(seed_, prompt.tokens),
                                 .memory_hint = "lower -n or --max-new-tokens"};
  const RolloutEngine engine(SamplingModel({loaded_.model}), loaded_.tokenizer);
  if (!shown) return engine.generate({&prompt, 1}, sampling);
  Decoding decoding = engine.submit({&prompt, 1}, sampling);
  std::string said, before;
  const auto say = [&](const std::string& text, size_t end) {
    if (end <= said.size() || !text.starts_with(said)) return;
    shown(std::string_view(text).substr(said.size(), end - said.size()));
    said = text.substr(0, end);
  };
  while (!decoding.done()) {
    throw_if_stopped();
    decoding.poll();
    if (decoding.done()) break;
    const std::string text = completion_text(decoding.rollouts().front());
    say(text, std::min(stable_prefix_length(text, settings_.stop_strings), common_prefix_length(before, text)));
    before = text;
  }
  std::vector<Rollout> rollouts = decoding.take();
  const std::string text = completion_text(rollouts.front());
  if (text.starts_with(said))
    say(text, text.size());
  else
    shown("\n" + text);  // what stands there cannot be taken back
  return rollouts;
}

std::string TextGenerator::completion_text(const Rollout& rollout) const {
  if (rollout.finish == Finish::kStopString) return rollout.text;
  const size_t spoken = rollout.tokens.size() - (rollout.finish == Finish::kStop ? 1 : 0);
  return loaded_.tokenizer.decode(std::span(rollout.tokens.ids).first(spoken));
}

}  // namespace keel::cli
