#include "keel/model/families/config_json.h"

#include <algorithm>
#include <cmath>

#include "keel/core/error.h"
#include "keel/core/files/json_file.h"
#include "keel/model/families/config_reader.h"
#include "keel/model/formats/weight_dtypes.h"

namespace keel {
namespace {

Json llama_config_json(const ModelConfig& config) {
  return {
      {"architectures", {"LlamaForCausalLM"}},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"head_dim", config.head_dim},
      {"hidden_act", "silu"},
      {"hidden_size", config.hidden_size},
      {"initializer_range", config.initializer_range},
      {"intermediate_size", config.intermediate_size},
      {"max_position_embeddings", config.max_position_embeddings},
      {"mlp_bias", false},
      {"model_type", "llama"},
      {"num_attention_heads", config.num_attention_heads},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_key_value_heads", config.num_key_value_heads},
      {"rms_norm_eps", config.rms_norm_eps},
      {"rope_theta", config.rope.theta},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"use_cache", true},
      {"vocab_size", config.vocab_size},
  };
}

void check_not_quantised(const Json& json, const std::string& location) {
  const Json quantization = json.value("quantization_config", json.value("compression_config", Json()));
  if (quantization.empty()) return;
  std::string method = format_short_json(quantization);
  if (quantization.is_object() && (quantization.contains("load_in_4bit") || quantization.contains("load_in_8bit")))
    method = "bitsandbytes";
  if (quantization.is_object() && quantization.value("quant_method", Json()).is_string())
    method = quantization["quant_method"];
  fail(ExitCode::kBadInput, location, ": quantization_config: the weights are quantised with ", method,
       ", which is not supported; use the folder of the model before it was quantised, or a GGUF file");
}

const Family* find_family(const std::string& type, const std::string& location) {
  std::string known;
  for (const Family* family : families()) {
    if (type == family->model_type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family->model_type);
  }
  fail(ExitCode::kBadInput, location, ": model_type is \"", type, "\"; known: ", known);
}

/// Checks for values that would make all logits NaN.
void check_values(const ModelConfig& c, const std::string& location) {
  if (!(c.rms_norm_eps >= 0))
    fail(ExitCode::kBadInput, location, ": rms_norm_eps is ", c.rms_norm_eps, "; expected a number of at least 0");
  if (!(c.initializer_range >= 0))
    fail(ExitCode::kBadInput, location, ": initializer_range is ", c.initializer_range,
         "; expected a number of at least 0");
  if (!(c.rope.theta > 1))
    fail(ExitCode::kBadInput, location, ": rope_theta is ", c.rope.theta, "; expected a number above 1");
  if (c.sliding_rope && !(c.sliding_rope->theta > 1))
    fail(ExitCode::kBadInput, location, ": the rope_theta of sliding layers (rope_local_base_freq) is ",
         c.sliding_rope->theta, "; expected a number above 1");
  if (!std::isfinite(c.attention_scale))
    fail(ExitCode::kBadInput, location, ": query_pre_attn_scalar is not a number above 0");
  for (const auto& [key, cap] : {std::pair{"attn_logit_softcapping", c.attention_softcap},
                                 std::pair{"final_logit_softcapping", c.logit_softcap}})
    if (!(cap >= 0))
      fail(ExitCode::kBadInput, location, ": ", key, " is ", cap, "; expected a number above 0, or null");
}

}  // namespace

Json to_config_json(const ModelConfig& config, const Json& special_ids, std::optional<at::ScalarType> chosen_dtype) {
  Json json = config.source;
  if (json.empty()) {
    json = llama_config_json(config);
    json.update(special_ids);
    json["dtype"] = json["torch_dtype"] = nullptr;  // torch_dtype is the older name
  }
  for (const char* key : {"dtype", "torch_dtype"})
    if (chosen_dtype && json.contains(key)) json[key] = dtype_name(*chosen_dtype);
  return json;
}

ModelConfig from_config_json(const Json& json, const std::string& location) {
  if (!json.is_object()) fail(ExitCode::kBadInput, location, ": not a JSON object; is this a model's config.json?");
  const ConfigReader r(json, location);
  const Family* family = find_family(r.text("model_type", ""), location);
  check_not_quantised(json, location);
  ModelConfig config;
  config.model_type = family->model_type;
  config.vocab_size = r.integer("vocab_size");
  config.hidden_size = r.integer("hidden_size");
  config.intermediate_size = r.integer("intermediate_size");
  config.num_hidden_layers = r.integer("num_hidden_layers");
  config.num_attention_heads = r.integer("num_attention_heads");
  config.num_key_value_heads = r.integer("num_key_value_heads", config.num_attention_heads);
  config.head_dim = r.integer("head_dim", config.hidden_size / std::max<int64_t>(config.num_attention_heads, 1));
  config.max_position_embeddings = r.integer("max_position_embeddings");
  config.rms_norm_eps = r.number("rms_norm_eps", 1e-6);
  config.initializer_range = r.number("initializer_range", 0.02);
  config.tie_word_embeddings = r.flag("tie_word_embeddings", false);
  config.source = json;
  if (config.num_hidden_layers < 1 || config.num_hidden_layers > kMaxLayers)
    fail(ExitCode::kBadInput, location, ": num_hidden_layers is ", config.num_hidden_layers, "; expected 1 to ",
         kMaxLayers);
  family->read(r, config);
  check_shape(config, ExitCode::kBadInput, location);
  check_values(config, location);
  return config;
}

}  // namespace keel
