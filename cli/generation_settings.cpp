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

/// Keys that do not affect sampling, or that are read elsewhere (the stop tokens, with the model).
bool is_unrelated(const std::string& key) {
  static const std::vector<std::string> kUnrelated = {"bos_token_id",
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
  return std::find(kUnrelated.begin(), kUnrelated.end(), key) != kUnrelated.end();
}

bool is_supported(const std::string& key) {
  return key == "do_sample" || key == "temperature" || key == "top_p" || key == "top_k" || key == "min_p" ||
         key == "max_new_tokens" || key == "max_length" || key == "stop_strings";
}

/// Returns whether a value of an unsupported key has no effect.
bool is_neutral(const std::string& key, const Json& value) {
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

/// Reads a number of the file within its bounds, if set.
std::optional<double> read_number(const Json& file, const char* key, double low, double high, const char* flag) {
  const Json value = file.value(key, Json());
  if (value.is_null()) return std::nullopt;
  const double number = value.is_number() ? value.get<double>() : NAN;
  if (!(number >= low && number <= high))
    fail(ExitCode::kBadInput, kFile, ": ", key, " is ", value.dump(), "; expected a number from ", low, " to ", high,
         "; set ", flag);
  return number;
}

std::optional<int64_t> read_count(const Json& file, const char* key, int64_t low, const char* flag) {
  constexpr int64_t kMaxCount = int64_t{1} << 27;
  const Json value = file.value(key, Json());
  if (value.is_null()) return std::nullopt;
  const bool fits = value.is_number_integer() && value >= low && value <= kMaxCount;
  if (!fits)
    fail(ExitCode::kBadInput, kFile, ": ", key, " is ", value.dump(), "; expected a whole number from ", low, "; set ",
         flag);
  return value.get<int64_t>();
}

/// The stop strings of the file: one, or a list.
std::optional<std::vector<std::string>> read_stop_strings(const Json& file) {
  Json value = file.value("stop_strings", Json());
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) value = Json::array({value});
  const auto is_text = [](const Json& text) { return text.is_string() && text != ""; };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_text))
    fail(ExitCode::kBadInput, kFile, ": stop_strings is ", value.dump(-1, ' ', false, Json::error_handler_t::replace),
         "; expected a non-empty string or a list of them; set --stop");
  return value.get<std::vector<std::string>>();
}

/// The temperature of the file; 0 if do_sample is false.
std::optional<double> read_temperature(const Json& file) {
  const Json sample = file.value("do_sample", Json());
  if (sample == false) return 0;
  if (!sample.is_null() && !sample.is_boolean())
    fail(ExitCode::kBadInput, kFile, ": do_sample is ", sample.dump(), "; expected true or false; set --temperature");
  if (file.value("temperature", Json()) == 0) return 0;
  return read_number(file, "temperature", kMinTemperature, kMaxTemperature, "--temperature");
}

/// Sets a value from the flag, or else from the file, which is noted in `from_file`.
template <class Value, class Read>
void resolve(Value& setting, const std::optional<Value>& flag, const Read& read, const std::string& name,
             std::vector<std::string>& from_file) {
  if (flag) {
    setting = *flag;
  } else if (const std::optional<Value> value = read()) {
    setting = *value;
    from_file.push_back(name + " " + Json(setting).dump());
  }
}

std::string describe_key(const std::string& key, const Json& value) {
  return key + " " + value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60);
}

std::vector<std::string> unsupported_keys(const Json& file) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : file.items())
    if (!is_unrelated(key) && !is_supported(key) && !is_neutral(key, value)) keys.push_back(describe_key(key, value));
  return keys;
}

}  // namespace

std::vector<std::string> describe_file_sampling(const Json& file) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : file.items())
    if (!is_unrelated(key) && !is_neutral(key, value)) keys.push_back(describe_key(key, value));
  return keys;
}

GenerationSettings generation_settings(const Json& file, const GenerationFlags& flags) {
  GenerationSettings settings;
  std::vector<std::string> from_file;
  resolve(
      settings.temperature, flags.temperature, [&] { return read_temperature(file); }, "temperature", from_file);
  auto& [top_k, top_p, min_p] = settings.filter;
  const Json file_filters = settings.temperature > 0 ? file : Json::object();  // all filters keep the greedy token
  resolve(
      top_p, flags.top_p, [&] { return read_number(file_filters, "top_p", 1e-9, 1, "--top-p"); }, "top_p", from_file);
  resolve(
      top_k, flags.top_k, [&] { return read_count(file_filters, "top_k", -1, "--top-k"); }, "top_k", from_file);
  resolve(
      min_p, flags.min_p, [&] { return read_number(file_filters, "min_p", 0, 1, "--min-p"); }, "min_p", from_file);
  top_k = std::max<int64_t>(top_k, 0);  // -1 means all tokens in vLLM
  resolve(
      settings.stop_strings, flags.stop_strings, [&] { return read_stop_strings(file); }, "stop_strings", from_file);
  int64_t max_new_tokens = 0;
  resolve(
      max_new_tokens, flags.max_new_tokens, [&] { return read_count(file, "max_new_tokens", 1, "--max-new-tokens"); },
      "max_new_tokens", from_file);
  if (max_new_tokens > 0) settings.max_new_tokens = max_new_tokens;
  if (max_new_tokens == 0) settings.max_length = read_count(file, "max_length", 1, "--max-new-tokens");
  if (settings.max_length) from_file.push_back("max_length " + std::to_string(*settings.max_length));
  if (!flags.temperature && settings.temperature > 0 && file.value("do_sample", Json()).is_null()) {
    const std::string consequence = " Keel samples at temperature " + Json(settings.temperature).dump() +
                                    ", transformers would decode greedily, as --temperature 0 does";
    if (describe_file_sampling(file).empty())
      settings.notes.push_back("the model sets no sampling:" + consequence);
    else
      from_file.push_back("no do_sample, so" + consequence);
  }
  if (!from_file.empty()) settings.notes.push_back(std::string(kFile) + ": " + joined(from_file));
  if (const std::vector<std::string> keys = unsupported_keys(file); !keys.empty())
    settings.notes.push_back(std::string(kFile) + ": unsupported: " + joined(keys));
  return settings;
}

}  // namespace keel::cli
