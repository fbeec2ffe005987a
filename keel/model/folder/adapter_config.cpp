#include "keel/model/folder/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "keel/core/error.h"
#include "keel/core/files/json_file.h"
#include "keel/model/families/config_reader.h"

namespace keel {
namespace {

/// Returns whether this init_lora_weights keeps the base weights. Others (pissa, olora, corda, loftq, ...) change them,
/// so that the adapter fits only the changed weights.
bool keeps_base_weights(const Json& init) {
  static const std::set<std::string> harmless{"gaussian", "orthogonal", "eva"};
  return init.is_null() || init.is_boolean() || (init.is_string() && harmless.contains(init));
}

bool matches(const text::Regex& pattern, const std::string& layer) { return pattern.find(layer).has_value(); }

bool is_string_array(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_string(); });
}

}  // namespace

AdapterConfig::AdapterConfig(Json json, const std::string& location) : json_(std::move(json)), location_(location) {
  if (!json_.is_object()) fail(ExitCode::kBadInput, location, ": not a JSON object; is this an adapter_config.json?");
  const ConfigReader r(json_, location);
  if (r.text("peft_type", "LORA") != "LORA")
    fail(ExitCode::kBadInput, location, ": peft_type is \"", r.text("peft_type", ""), "\"; known: LORA");
  for (const char* key : {"use_dora", "fan_in_fan_out", "lora_bias", "use_qalora"})
    if (r.flag(key, false)) reject(key);
  if (r.text("bias", "none") != "none") reject("bias");
  for (const char* key : {"modules_to_save", "layer_replication", "target_parameters", "trainable_token_indices",
                          "alora_invocation_tokens", "use_bdlora", "arrow_config", "kasa_config", "monteclora_config",
                          "velora_config", "loftq_config"})
    if (r.has(key) && json_[key] != false && !json_[key].empty()) reject(key);
  if (!keeps_base_weights(json_.value("init_lora_weights", Json(true)))) reject("init_lora_weights");
  for (const char* key : {"r", "lora_alpha", "target_modules"})
    if (!r.has(key))
      fail(ExitCode::kBadInput, location, ": no key \"", key, "\"; is this the adapter_config.json of a PEFT adapter?");
  rank_ = checked_rank("r", json_["r"]);
  alpha_ = checked_alpha("lora_alpha", json_["lora_alpha"]);
  rank_stabilized_ = r.flag("use_rslora", false);
  all_linear_ = json_["target_modules"] == "all-linear";
  if (!all_linear_) target_ = read_names("target_modules");
  if (r.has("exclude_modules")) excluded_ = read_names("exclude_modules");
  rank_overrides_ = read_overrides<int64_t>("rank_pattern", &AdapterConfig::checked_rank);
  alpha_overrides_ = read_overrides<double>("alpha_pattern", &AdapterConfig::checked_alpha);
  read_layers();
}

int64_t AdapterConfig::checked_rank(const char* key, const Json& value) const {
  constexpr int64_t kMax = 1 << 16;
  if (!value.is_number_integer() || value < 1 || value > kMax)
    fail(ExitCode::kBadInput, location_, ": ", key, " is ", format_short_json(value), "; expected a rank from 1 to ",
         kMax);
  return value.get<int64_t>();
}

double AdapterConfig::checked_alpha(const char* key, const Json& value) const {
  if (!value.is_number() || std::abs(value.get<double>()) > kMaxLoraAlpha)
    fail(ExitCode::kBadInput, location_, ": ", key, " is ", format_short_json(value), "; expected a number up to ",
         kMaxLoraAlpha);
  return value.get<double>();
}

void AdapterConfig::reject(const char* key) const {
  fail(ExitCode::kBadInput, location_, ": \"", key, "\" is ", format_short_json(json_[key]),
       ", which would change the result and is not supported; ", kMergeFirst);
}

AdapterConfig::Names AdapterConfig::read_names(const char* key) const {
  const Json& value = json_[key];
  Names names;
  if (value.is_string()) {
    names.pattern = text::Regex::compile_pcre2("\\A(?:" + value.get<std::string>() + ")\\z", location_ + ": " + key);
  } else if (is_string_array(value)) {
    names.suffixes = value.get<std::vector<std::string>>();
  } else {
    reject(key);
  }
  return names;
}

/// rank_pattern and alpha_pattern: a number for each regular expression, which matches the end of a name.
template <class Number>
AdapterConfig::Overrides<Number> AdapterConfig::read_overrides(const char* key, Check<Number> check) const {
  Overrides<Number> result;
  const Json patterns = json_.value(key, Json());
  if (patterns.is_null()) return result;
  if (!patterns.is_object()) reject(key);
  for (const auto& [pattern, value] : patterns.items()) {
    const Number checked = (this->*check)(key, value);
    result.emplace_back(text::Regex::compile_pcre2("\\A(.*\\.)?(" + pattern + ")$", location_ + ": " + key), checked);
  }
  return result;
}

/// layers_to_transform: block indices, which follow layers_pattern in layer names.
void AdapterConfig::read_layers() {
  const Json blocks = json_.value("layers_to_transform", Json()), patterns = json_.value("layers_pattern", Json());
  if (blocks.is_null()) return;
  for (const Json& block : blocks.is_array() ? blocks : Json::array({blocks})) {
    if (!block.is_number_unsigned() || block.get<uint64_t>() > INT64_MAX) reject("layers_to_transform");
    blocks_.push_back(block.get<int64_t>());
  }
  const Json list = patterns.empty()       ? Json::array({"[^.]*"})
                    : patterns.is_string() ? Json::array({patterns})
                                           : patterns;
  if (!is_string_array(list)) reject("layers_pattern");
  const std::string prefix = patterns.empty() ? "\\A.*?\\." : "\\A(?:|.*?\\.)";
  for (const Json& pattern : list)
    block_patterns_.push_back(text::Regex::compile_pcre2(prefix + pattern.get<std::string>() + "\\.\\K\\d+(?=\\.)",
                                                         location_ + ": layers_pattern"));
}

bool AdapterConfig::Names::contain(const std::string& layer) const {
  if (pattern) return matches(*pattern, layer);
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](const std::string& end) { return layer == end || layer.ends_with("." + end); });
}

bool AdapterConfig::targets(const std::string& layer) const {
  if (excluded_.contain(layer)) return false;
  if (all_linear_) return true;
  if (!target_.contain(layer)) return false;
  // layers_to_transform applies neither to a regular expression nor to full names.
  if (blocks_.empty() || target_.pattern || std::count(target_.suffixes.begin(), target_.suffixes.end(), layer) > 0)
    return true;
  for (const text::Regex& pattern : block_patterns_) {
    const auto number = pattern.find(layer);
    if (!number) continue;
    const std::string digits = layer.substr(number->begin, number->end - number->begin);
    return std::any_of(blocks_.begin(), blocks_.end(), [&](int64_t block) { return std::to_string(block) == digits; });
  }
  return false;
}

int64_t AdapterConfig::rank(const std::string& layer) const {
  for (const auto& [pattern, rank] : rank_overrides_)
    if (matches(pattern, layer)) return rank;
  return rank_;
}

double AdapterConfig::scale(const std::string& layer) const {
  double alpha = alpha_;
  for (const auto& [pattern, value] : alpha_overrides_) {
    if (!matches(pattern, layer)) continue;
    alpha = value;
    break;
  }
  const double r = static_cast<double>(rank(layer));
  return alpha / (rank_stabilized_ ? std::sqrt(r) : r);
}

Json to_adapter_json(const LoraOptions& options) {
  return {{"base_model_name_or_path", nullptr},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"lora_alpha", options.alpha},
          {"lora_dropout", options.dropout},
          {"modules_to_save", nullptr},
          {"peft_type", "LORA"},
          {"r", options.rank},
          {"target_modules", options.target_modules},
          {"task_type", "CAUSAL_LM"},
          {"use_dora", false},
          {"use_rslora", options.rank_stabilized}};
}

}  // namespace keel
