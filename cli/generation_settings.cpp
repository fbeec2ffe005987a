#include "cli/generation_settings.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/ops/sampler.h"

namespace keel::cli {
namespace {

constexpr const char* kFile = "generation_config.json";

/// Keys that say nothing about which tokens are drawn, or that are read elsewhere (the ends, with the model).
bool is_silent(const std::string& key) {
  static const std::vector<std::string> kSilent = {"bos_token_id",
                                                   "eos_token_id",
                                                   "pad_token_id",
                                                   "decoder_start_token_id",
                                                   "transformers_version",
                                                   "_from_model_config",
                                                   "use_cache",
                                                   "cache_implementation",
                                                   "return_dict_in_generate",
                                                   "output_attentions",
                                                   "output_hidden_states",
                                                   "output_scores",
                                                   "output_logits",
                                                   "trust_remote_code",
                                                   "chat_format",
                                                   "length_penalty",
                                                   "early_stopping",
                                                   "is_assistant",
                                                   "max_matching_ngram_size"};
  return std::find(kSilent.begin(), kSilent.end(), key) != kSilent.end();
}

bool is_followed(const std::string& key) {
  return key == "do_sample" || key == "temperature" || key == "top_p" || key == "top_k" || key == "min_p" ||
         key == "max_new_tokens" || key == "max_length" || key == "stop_strings";
}

/// Values at which a key that Keel does not follow asks for nothing.
bool asks_for_nothing(const std::string& key, const Json& value) {
  static const std::map<std::string, double> kNeutral = {{"repetition_penalty", 1},
                                                         {"encoder_repetition_penalty", 1},
                                                         {"typical_p", 1},
                                                         {"num_beams", 1},
                                                         {"num_beam_groups", 1},
                                                         {"diversity_penalty", 0},
                                                         {"no_repeat_ngram_size", 0},
                                                         {"epsilon_cutoff", 0},
                                                         {"eta_cutoff", 0},
                                                         {"min_length", 0},
                                                         {"min_new_tokens", 0},
                                                         {"guidance_scale", 1},
                                                         {"num_return_sequences", 1},
                                                         {"penalty_alpha", 0}};
  if (value.is_null() || value == false || (value.is_structured() && value.empty())) return true;
  const auto neutral = kNeutral.find(key);
  return neutral != kNeutral.end() && value.is_number() && value.get<double>() == neutral->second;
}

/// A number of the file within its bounds; nothing where it has none.
std::optional<double> number_of(const Json& file, const char* key, double low, double high, const char* flag) {
  const Json value = file.value(key, Json());
  if (value.is_null()) return std::nullopt;
  const double number = value.is_number() ? value.get<double>() : NAN;
  if (!(number >= low && number <= high))
    fail(ExitCode::kBadInput, kFile, ": ", key, " is ", value.dump(), "; expected a number from ", low, " to ", high,
         "; give ", flag);
  return number;
}

std::optional<int64_t> count_of(const Json& file, const char* key, int64_t low, const char* flag) {
  constexpr int64_t kMost = int64_t{1} << 27;
  const Json value = file.value(key, Json());
  if (value.is_null()) return std::nullopt;
  const bool fits = value.is_number_integer() && value >= low && value <= kMost;
  if (!fits)
    fail(ExitCode::kBadInput, kFile, ": ", key, " is ", value.dump(), "; expected a whole number from ", low, "; give ",
         flag);
  return value.get<int64_t>();
}

/// The strings of the file that end a completion: one, or a list.
std::optional<std::vector<std::string>> stop_strings_of(const Json& file) {
  Json value = file.value("stop_strings", Json());
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) value = Json::array({value});
  const auto is_text = [](const Json& text) { return text.is_string() && text != ""; };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_text))
    fail(ExitCode::kBadInput, kFile, ": stop_strings is ", value.dump(-1, ' ', false, Json::error_handler_t::replace),
         "; expected a text or a list of texts that are not empty; give --stop");
  return value.get<std::vector<std::string>>();
}

/// The temperature of the file; 0 where it says not to sample.
std::optional<double> temperature_of(const Json& file) {
  const Json sample = file.value("do_sample", Json());
  if (sample == false) return 0;
  if (!sample.is_null() && !sample.is_boolean())
    fail(ExitCode::kBadInput, kFile, ": do_sample is ", sample.dump(), "; expected true or false; give --temperature");
  if (file.value("temperature", Json()) == 0) return 0;
  return number_of(file, "temperature", kMinTemperature, kMaxTemperature, "--temperature");
}

/// Takes a flag or, without one, what the file says, and notes the latter.
template <class Value, class Read>
void take(Value& setting, const std::optional<Value>& flag, const Read& read, const std::string& name,
          std::vector<std::string>& taken) {
  if (flag) {
    setting = *flag;
  } else if (const std::optional<Value> said = read()) {
    setting = *said;
    taken.push_back(name + " " + Json(setting).dump());
  }
}

std::string setting_words(const std::string& key, const Json& value) {
  return key + " " + value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60);
}

std::vector<std::string> not_followed(const Json& file) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : file.items())
    if (!is_silent(key) && !is_followed(key) && !asks_for_nothing(key, value))
      keys.push_back(setting_words(key, value));
  return keys;
}

}  // namespace

std::vector<std::string> sampling_asked_for(const Json& file) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : file.items())
    if (!is_silent(key) && !asks_for_nothing(key, value)) keys.push_back(setting_words(key, value));
  return keys;
}

GenerationSettings generation_settings(const Json& file, const GenerationFlags& flags) {
  GenerationSettings settings;
  std::vector<std::string> taken;
  take(
      settings.temperature, flags.temperature, [&] { return temperature_of(file); }, "temperature", taken);
  auto& [top_k, top_p, min_p] = settings.truncation;
  const Json cuts = settings.temperature > 0 ? file : Json::object();  // which the likeliest token passes anyway
  take(
      top_p, flags.top_p, [&] { return number_of(cuts, "top_p", 1e-9, 1, "--top-p"); }, "top_p", taken);
  take(
      top_k, flags.top_k, [&] { return count_of(cuts, "top_k", -1, "--top-k"); }, "top_k", taken);
  take(
      min_p, flags.min_p, [&] { return number_of(cuts, "min_p", 0, 1, "--min-p"); }, "min_p", taken);
  top_k = std::max<int64_t>(top_k, 0);  // vLLM's -1 is all tokens too
  take(
      settings.stop_strings, flags.stop_strings, [&] { return stop_strings_of(file); }, "stop_strings", taken);
  int64_t longest = 0;
  take(
      longest, flags.max_new_tokens, [&] { return count_of(file, "max_new_tokens", 1, "--max-new-tokens"); },
      "max_new_tokens", taken);
  if (longest > 0) settings.max_new_tokens = longest;
  if (longest == 0) settings.max_length = count_of(file, "max_length", 1, "--max-new-tokens");
  if (settings.max_length) taken.push_back("max_length " + std::to_string(*settings.max_length));
  if (!flags.temperature && settings.temperature > 0 && file.value("do_sample", Json()).is_null()) {
    const std::string consequence = " Keel samples at temperature " + Json(settings.temperature).dump() +
                                    " where transformers would take the likeliest token, as --temperature 0 does";
    if (sampling_asked_for(file).empty())
      settings.notes.push_back("the model does not say how to sample:" + consequence);
    else
      taken.push_back("no do_sample, so that" + consequence);
  }
  if (!taken.empty()) settings.notes.push_back(std::string(kFile) + ": " + joined(taken));
  if (const std::vector<std::string> rest = not_followed(file); !rest.empty())
    settings.notes.push_back(std::string(kFile) + ": not followed: " + joined(rest));
  return settings;
}

}  // namespace keel::cli
