#include "keel/model/model_config.h"

#include "keel/core/error.h"
#include "keel/core/options.h"

namespace keel {

void ModelOptions::describe(OptionTable& table) {
  // The upper bounds keep every product of sizes, the number of parameters above all, inside 63 bits.
  constexpr double kMaxWidth = 1 << 20, kMaxLayers = 1 << 16, kMaxIntermediate = 1 << 24, kMaxPositions = 1 << 27;
  table.add("hidden_size", hidden_size, "Width of the residual stream.", at_least(1).at_most(kMaxWidth));
  table.add("layers", layers, "Number of transformer blocks.", at_least(1).at_most(kMaxLayers));
  table.add("heads", heads, "Attention heads; must divide hidden_size into an even head width.",
            at_least(1).at_most(kMaxWidth));
  table.add("kv_heads", kv_heads, "Key-value heads (grouped-query attention); 0 means as many as heads.",
            at_least(0).at_most(kMaxWidth));
  table.add("intermediate_size", intermediate_size,
            "Width of the SwiGLU layer; 0 means 8/3 of hidden_size, rounded down to a multiple of 16.",
            at_least(0).at_most(kMaxIntermediate));
  table.add("tie_embeddings", tie_embeddings, "Use the token embedding as the LM head.");
  table.add("rope_theta", rope_theta, "Base of the rotary position embedding.", above(0));
  table.add("rms_norm_eps", rms_norm_eps, "Added to the mean square in RMSNorm.", above(0));
  table.add("initializer_range", initializer_range, "Standard deviation of the initial weights.", above(0));
  table.add("max_positions", max_positions, "Longest prompt plus completion, in tokens.",
            at_least(2).at_most(kMaxPositions));
}

namespace {

void check_shape(const ModelConfig& c, ExitCode code, const std::string& place) {
  const int64_t sizes[] = {
      c.vocab_size,          c.hidden_size,         c.intermediate_size, c.num_hidden_layers,
      c.num_attention_heads, c.num_key_value_heads, c.head_dim,          c.max_position_embeddings};
  for (const int64_t size : sizes)
    if (size < 1 || size > (int64_t{1} << 32))
      fail(code, place, ": a size of ", size, "; every size must be at least 1");
  if (c.head_dim % 2 != 0)
    fail(code, place, ": a head width of ", c.head_dim, "; rotary embeddings turn pairs, so it must be even");
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    fail(code, place, ": ", c.num_attention_heads, " heads cannot share ", c.num_key_value_heads,
         " key-value heads evenly; choose a divisor of the number of heads");
}

template <class T>
T required(const Json& json, const char* key, const std::string& place) {
  if (!json.contains(key)) fail(ExitCode::kBadInput, place, ": no key \"", key, "\"; is this a model's config.json?");
  if (!json[key].is_number())
    fail(ExitCode::kBadInput, place, ": \"", key, "\" is ", json[key].dump(), ", wanted a number");
  return json[key].get<T>();
}

}  // namespace

int64_t ModelConfig::parameter_count() const {
  const int64_t attention = hidden_size * head_dim * (2 * num_attention_heads + 2 * num_key_value_heads);
  const int64_t block = attention + 3 * hidden_size * intermediate_size + 2 * hidden_size;
  return num_hidden_layers * block + hidden_size + vocab_size * hidden_size * (tie_word_embeddings ? 1 : 2);
}

ModelConfig model_config(const ModelOptions& options, int64_t vocab_size) {
  if (options.hidden_size % options.heads != 0)
    fail(ExitCode::kBadConfiguration, "model.hidden_size is ", options.hidden_size, " and model.heads is ",
         options.heads, "; hidden_size must be a multiple of heads");
  ModelConfig config;
  config.vocab_size = vocab_size;
  config.hidden_size = options.hidden_size;
  config.intermediate_size =
      options.intermediate_size > 0 ? options.intermediate_size : options.hidden_size * 8 / 3 / 16 * 16;
  config.num_hidden_layers = options.layers;
  config.num_attention_heads = options.heads;
  config.num_key_value_heads = options.kv_heads > 0 ? options.kv_heads : options.heads;
  config.head_dim = options.hidden_size / options.heads;
  config.max_position_embeddings = options.max_positions;
  config.rms_norm_eps = options.rms_norm_eps;
  config.rope_theta = options.rope_theta;
  config.initializer_range = options.initializer_range;
  config.tie_word_embeddings = options.tie_embeddings;
  check_shape(config, ExitCode::kBadConfiguration, "model");
  return config;
}

Json to_config_json(const ModelConfig& config, const Json& special) {
  Json json = {
      {"architectures", {"LlamaForCausalLM"}},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"dtype", "float32"},
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
      {"rope_theta", config.rope_theta},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"torch_dtype", "float32"},  // the older spelling of dtype
      {"use_cache", true},
      {"vocab_size", config.vocab_size},
  };
  json.update(special);
  return json;
}

ModelConfig from_config_json(const Json& json, const std::string& place) {
  if (!json.is_object()) fail(ExitCode::kBadInput, place, ": not a JSON object; is this a model's config.json?");
  const std::string type =
      json.contains("model_type") && json["model_type"].is_string() ? json["model_type"] : Json("");
  if (type != "llama") fail(ExitCode::kBadInput, place, ": model_type is \"", type, "\"; this version knows \"llama\"");
  ModelConfig config;
  config.vocab_size = required<int64_t>(json, "vocab_size", place);
  config.hidden_size = required<int64_t>(json, "hidden_size", place);
  config.intermediate_size = required<int64_t>(json, "intermediate_size", place);
  config.num_hidden_layers = required<int64_t>(json, "num_hidden_layers", place);
  config.num_attention_heads = required<int64_t>(json, "num_attention_heads", place);
  config.num_key_value_heads = json.value("num_key_value_heads", config.num_attention_heads);
  config.head_dim = json.value("head_dim", config.hidden_size / std::max<int64_t>(config.num_attention_heads, 1));
  config.max_position_embeddings = required<int64_t>(json, "max_position_embeddings", place);
  config.rms_norm_eps = required<double>(json, "rms_norm_eps", place);
  config.rope_theta = json.value("rope_theta", 1e4);
  config.initializer_range = json.value("initializer_range", 0.02);
  config.tie_word_embeddings = json.value("tie_word_embeddings", false);
  check_shape(config, ExitCode::kBadInput, place);
  return config;
}

}  // namespace keel
