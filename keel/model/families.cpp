#include "keel/model/families.h"

#include <array>
#include <cmath>

#include "keel/core/error.h"

namespace keel {
namespace {

constexpr std::array<const Family*, 6> kFamilies{&kLlama, &kMistral, &kQwen2, &kQwen3, &kGemma2, &kGemma3};

Rope::Scaling scaling_named(const std::string& name, const std::string& place) {
  if (name == "default") return Rope::Scaling::kNone;
  if (name == "linear") return Rope::Scaling::kLinear;
  if (name == "llama3") return Rope::Scaling::kLlama3;
  if (name == "yarn") return Rope::Scaling::kYarn;
  fail(ExitCode::kBadInput, place, ": rope type \"", name, "\"; known: default, linear, llama3, yarn");
}

/// How much yarn strengthens attention where positions are stretched (arXiv 2309.00071, eq. 22).
double yarn_attention_factor(const ConfigReader& r, double factor) {
  const auto strength = [&](double scale) { return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0; };
  if (r.has("attention_factor")) return r.number("attention_factor");
  if (r.has("mscale") && r.has("mscale_all_dim"))
    return strength(r.number("mscale")) / strength(r.number("mscale_all_dim"));
  return strength(1);
}

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

int64_t ConfigReader::integer(const char* key) const {
  if (!has(key)) fail(ExitCode::kBadInput, place_, ": no key \"", key, "\"; is this a model's config.json?");
  const Json& value = json_[key];
  if (!value.is_number_integer())
    fail(ExitCode::kBadInput, place_, ": \"", key, "\" is ", value.dump(), ", wanted a whole number");
  return value.get<int64_t>();
}

double ConfigReader::number(const char* key) const {
  if (!has(key)) fail(ExitCode::kBadInput, place_, ": no key \"", key, "\"; is this a model's config.json?");
  const Json& value = json_[key];
  if (!value.is_number()) fail(ExitCode::kBadInput, place_, ": \"", key, "\" is ", value.dump(), ", wanted a number");
  return value.get<double>();
}

bool ConfigReader::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!json_[key].is_boolean())
    fail(ExitCode::kBadInput, place_, ": \"", key, "\" is ", json_[key].dump(), ", wanted true or false");
  return json_[key].get<bool>();
}

std::string ConfigReader::text(const char* key, const std::string& otherwise) const {
  if (!has(key)) return otherwise;
  if (!json_[key].is_string())
    fail(ExitCode::kBadInput, place_, ": \"", key, "\" is ", json_[key].dump(), ", wanted a text");
  return json_[key].get<std::string>();
}

ConfigReader ConfigReader::section(const char* key) const {
  if (!json_[key].is_object())
    fail(ExitCode::kBadInput, place_, ": \"", key, "\" is ", json_[key].dump(), ", wanted an object");
  return {json_[key], place_ + ": " + key};
}

Rope ConfigReader::rope(double default_theta, const char* layer_type) const {
  Rope rope;
  rope.theta = number("rope_theta", default_theta);
  const char* key = has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!has(key)) return rope;
  const ConfigReader outer = section(key);
  const ConfigReader r = layer_type && outer.has(layer_type) ? outer.section(layer_type) : outer;
  rope.theta = r.number("rope_theta", rope.theta);
  if (r.number("partial_rotary_factor", 1) != 1)
    fail(ExitCode::kBadInput, r.place(), ": partial_rotary_factor is ", r.number("partial_rotary_factor"),
         "; known: 1, all of a head is turned");
  rope.scaling = scaling_named(r.text("rope_type", r.text("type", "default")), r.place());
  if (rope.scaling == Rope::Scaling::kNone) return rope;
  rope.factor = r.number("factor");
  if (!(rope.factor > 0))
    fail(ExitCode::kBadInput, r.place(), ": factor is ", rope.factor, ", wanted a number above 0");
  rope.original_positions =
      r.number("original_max_position_embeddings",
               number("original_max_position_embeddings", static_cast<double>(integer("max_position_embeddings"))));
  if (rope.scaling == Rope::Scaling::kLlama3) {
    rope.low_frequency_factor = r.number("low_freq_factor");
    rope.high_frequency_factor = r.number("high_freq_factor");
    if (!(rope.high_frequency_factor > rope.low_frequency_factor && rope.low_frequency_factor > 0))
      fail(ExitCode::kBadInput, r.place(), ": low_freq_factor is ", rope.low_frequency_factor, " and high_freq_factor ",
           rope.high_frequency_factor, "; wanted 0 < low < high");
  }
  if (rope.scaling == Rope::Scaling::kYarn) {
    rope.beta_fast = r.number("beta_fast", 32);
    rope.beta_slow = r.number("beta_slow", 1);
    rope.truncate = r.flag("truncate", true);
    rope.attention_factor = yarn_attention_factor(r, rope.factor);
  }
  return rope;
}

Activation ConfigReader::activation(Activation otherwise) const {
  const std::string name = text("hidden_activation", text("hidden_act", ""));
  if (name.empty()) return otherwise;
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return Activation::kGeluTanh;
  if (name == "gelu") return Activation::kGelu;
  fail(ExitCode::kBadInput, place_, ": hidden_act is \"", name, "\"; known: silu, gelu_pytorch_tanh, gelu");
}

std::vector<bool> ConfigReader::layer_types(int64_t layers) const {
  const Json& types = json_["layer_types"];
  if (!types.is_array() || static_cast<int64_t>(types.size()) != layers)
    fail(ExitCode::kBadInput, place_, ": layer_types has ", types.is_array() ? types.size() : 0,
         " entries; wanted one for each of the ", layers, " layers");
  std::vector<bool> result;
  for (const Json& type : types) {
    if (type != "sliding_attention" && type != "full_attention")
      fail(ExitCode::kBadInput, place_, ": layer_types has ", type.dump(),
           "; known: full_attention, sliding_attention");
    result.push_back(type == "sliding_attention");
  }
  return result;
}

}  // namespace keel
