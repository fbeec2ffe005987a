#include "keel/model/families/config_reader.h"

#include <array>
#include <cmath>
#include <limits>

#include "keel/core/error.h"
#include "keel/core/files/json_file.h"

namespace keel {
namespace {

constexpr std::array<const Family*, 6> kFamilies{&kLlama, &kMistral, &kQwen2, &kQwen3, &kGemma2, &kGemma3};

Rope::Scaling parse_scaling(const std::string& name, const std::string& location) {
  // Dynamic scaling applies only beyond max_position_embeddings, which sequences here never exceed.
  if (name == "default" || name == "dynamic") return Rope::Scaling::kNone;
  if (name == "linear") return Rope::Scaling::kLinear;
  if (name == "llama3") return Rope::Scaling::kLlama3;
  if (name == "yarn") return Rope::Scaling::kYarn;
  fail(ExitCode::kBadInput, location, ": rope type \"", name, "\"; known: default, linear, dynamic, llama3, yarn");
}

/// The attention factor of YaRN (arXiv 2309.00071, eq. 22).
double yarn_attention_factor(const ConfigReader& r, double factor) {
  const auto factor_for = [&](double scale) { return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0; };
  if (r.has("attention_factor")) return r.number("attention_factor");
  const double mscale = r.number("mscale", 0), mscale_all_dim = r.number("mscale_all_dim", 0);
  if (mscale != 0 && mscale_all_dim != 0) return factor_for(mscale) / factor_for(mscale_all_dim);
  return factor_for(1);
}

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

int64_t ConfigReader::integer(const char* key) const {
  if (!has(key)) fail(ExitCode::kBadInput, location_, ": no key \"", key, "\"; is this a model's config.json?");
  const Json& value = json_[key];
  const bool fits = value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX);
  if (!fits)
    fail(ExitCode::kBadInput, location_, ": \"", key, "\" is ", format_short_json(value), ", expected a whole number");
  return value.get<int64_t>();
}

double ConfigReader::number(const char* key) const {
  if (!has(key)) fail(ExitCode::kBadInput, location_, ": no key \"", key, "\"; is this a model's config.json?");
  const Json& value = json_[key];
  constexpr double kMax = std::numeric_limits<float>::max();  // used as float32
  if (!value.is_number() || std::abs(value.get<double>()) > kMax)
    fail(ExitCode::kBadInput, location_, ": \"", key, "\" is ", format_short_json(value),
         ", expected a number within the range of float32");
  return value.get<double>();
}

bool ConfigReader::flag(const char* key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!json_[key].is_boolean())
    fail(ExitCode::kBadInput, location_, ": \"", key, "\" is ", format_short_json(json_[key]),
         ", expected true or false");
  return json_[key].get<bool>();
}

std::string ConfigReader::text(const char* key, const std::string& fallback) const {
  if (!has(key)) return fallback;
  if (!json_[key].is_string())
    fail(ExitCode::kBadInput, location_, ": \"", key, "\" is ", format_short_json(json_[key]), ", expected a string");
  return json_[key].get<std::string>();
}

ConfigReader ConfigReader::section(const char* key) const {
  if (!json_[key].is_object())
    fail(ExitCode::kBadInput, location_, ": \"", key, "\" is ", format_short_json(json_[key]), ", expected an object");
  return {json_[key], location_ + ": " + key};
}

Rope ConfigReader::rope() const {
  constexpr double kTheta = 1e4;
  const double theta = number("rope_theta", kTheta);
  // As in transformers, the older name rope_scaling takes precedence.
  const char* key = has("rope_scaling") && !json_["rope_scaling"].empty() ? "rope_scaling" : "rope_parameters";
  if (!has(key)) return Rope{.theta = theta};
  const ConfigReader parameters = section(key);
  for (const char* layers : {"full_attention", "sliding_attention"})
    if (parameters.has(layers))
      fail(ExitCode::kBadInput, parameters.location(), ": parameters for ", layers,
           " layers; all layers of this architecture use the same rotary embedding");
  return rope_from(parameters.json(), parameters.location(), theta);
}

Rope ConfigReader::rope_from(const Json& parameters, const std::string& location, double theta) const {
  const ConfigReader r(parameters, location);
  Rope rope{.theta = r.number("rope_theta", theta)};
  rope.scaling = parse_scaling(r.text("rope_type", r.text("type", "default")), location);
  if (rope.scaling == Rope::Scaling::kNone) return rope;
  if (const double part = r.number("partial_rotary_factor", number("partial_rotary_factor", 1)); part != 1)
    fail(ExitCode::kBadInput, location, ": partial_rotary_factor is ", part, "; only 1 is supported");
  const double positions = static_cast<double>(integer("max_position_embeddings"));
  rope.original_positions =
      number("original_max_position_embeddings", r.number("original_max_position_embeddings", positions));
  const bool derives_factor = rope.scaling == Rope::Scaling::kYarn && !r.has("factor");
  rope.factor = derives_factor ? positions / rope.original_positions : r.number("factor");
  if (!(rope.original_positions > 0))
    fail(ExitCode::kBadInput, location, ": original_max_position_embeddings is ", rope.original_positions,
         ", expected a number above 0");
  if (!(rope.factor > 0))
    fail(ExitCode::kBadInput, location, ": factor is ", rope.factor, ", expected a number above 0");
  if (rope.scaling == Rope::Scaling::kLlama3) {
    rope.low_frequency_factor = r.number("low_freq_factor");
    rope.high_frequency_factor = r.number("high_freq_factor");
    if (!(rope.high_frequency_factor > rope.low_frequency_factor && rope.low_frequency_factor > 0))
      fail(ExitCode::kBadInput, location, ": low_freq_factor is ", rope.low_frequency_factor, " and high_freq_factor ",
           rope.high_frequency_factor, "; expected 0 < low < high");
  }
  if (rope.scaling == Rope::Scaling::kYarn) {
    rope.beta_fast = r.nonzero_number("beta_fast", 32);
    rope.beta_slow = r.nonzero_number("beta_slow", 1);
    rope.truncate = r.flag("truncate", true);
    rope.attention_factor = yarn_attention_factor(r, rope.factor);
    for (const auto& [key, value] : {std::pair{"beta_fast", rope.beta_fast},
                                     {"beta_slow", rope.beta_slow},
                                     {"attention_factor", rope.attention_factor}})
      if (!(value > 0)) fail(ExitCode::kBadInput, location, ": ", key, " is ", value, ", expected a number above 0");
  }
  return rope;
}

Activation ConfigReader::activation(const char* key, Activation fallback) const {
  const std::string name = text(key, "");
  if (name.empty()) return fallback;
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return Activation::kGeluTanh;
  if (name == "gelu") return Activation::kGelu;
  fail(ExitCode::kBadInput, location_, ": ", key, " is \"", name, "\"; known: silu, gelu_pytorch_tanh, gelu");
}

std::vector<bool> ConfigReader::layer_types(int64_t layers) const {
  const Json& types = json_["layer_types"];
  if (!types.is_array() || static_cast<int64_t>(types.size()) != layers)
    fail(ExitCode::kBadInput, location_, ": layer_types has ", types.is_array() ? types.size() : 0,
         " entries; expected one for each of the ", layers, " layers");
  std::vector<bool> result;
  for (const Json& type : types) {
    if (type != "sliding_attention" && type != "full_attention")
      fail(ExitCode::kBadInput, location_, ": layer_types has ", format_short_json(type),
           "; known: full_attention, sliding_attention");
    result.push_back(type == "sliding_attention");
  }
  return result;
}

}  // namespace keel
