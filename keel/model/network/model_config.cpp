#include "keel/model/network/model_config.h"

#include <algorithm>
#include <cmath>

#include "keel/core/error.h"
#include "keel/core/options/options.h"

namespace keel {
namespace {

// Far above any real model, but small enough that products of sizes, such as the parameter count, fit 63 bits. Token
// ids have 32 bits.
constexpr int64_t kMaxWidth = 1 << 20, kMaxIntermediate = 1 << 24, kMaxTotalHeadDim = 1 << 24,
                  kMaxVocabulary = (int64_t{1} << 31) - 1, kMaxPositions = int64_t{1} << 32;

}  // namespace

void ModelOptions::describe(OptionTable& table) {
  table.add("path", path,
            "A Hugging Face folder, a GGUF file, owner/name in the local Hugging Face cache, or a run directory (its "
            "newest valid checkpoint). If empty, a network with the sizes below is created. `model: PATH` is a short "
            "form.");
  table.add("random_weights", random_weights,
            "Use the architecture and tokenizer of model.path, but new random weights.");
  constexpr double kMaxModelPositions = 1 << 27;
  table.add("hidden_size", hidden_size, "Width of the residual stream.", at_least(1).at_most(kMaxWidth));
  table.add("layers", layers, "Number of transformer blocks.", at_least(1).at_most(kMaxLayers));
  table.add("heads", heads, "Attention heads; must divide hidden_size into an even head width.",
            at_least(1).at_most(kMaxWidth));
  table.add("initializer_range", initializer_range, "Standard deviation of the initial weights.", above(0));
  table.add("max_positions", max_positions, "Maximum length of prompt plus completion, in tokens.",
            at_least(2).at_most(kMaxModelPositions));
}

void check_shape(const ModelConfig& c, ExitCode code, const std::string& location) {
  struct Size {
    const char* name;
    int64_t size, max;
  };
  const Size sizes[] = {{"vocab_size", c.vocab_size, kMaxVocabulary},
                        {"hidden_size", c.hidden_size, kMaxWidth},
                        {"intermediate_size", c.intermediate_size, kMaxIntermediate},
                        {"num_hidden_layers", c.num_hidden_layers, kMaxLayers},
                        {"num_attention_heads", c.num_attention_heads, kMaxWidth},
                        {"num_key_value_heads", c.num_key_value_heads, kMaxWidth},
                        {"head_dim", c.head_dim, kMaxWidth},
                        {"max_position_embeddings", c.max_position_embeddings, kMaxPositions}};
  for (const auto& [name, size, max] : sizes)
    if (size < 1 || size > max) fail(code, location, ": ", name, " is ", size, "; expected 1 to ", max);
  if (c.num_attention_heads * c.head_dim > kMaxTotalHeadDim)
    fail(code, location, ": num_attention_heads is ", c.num_attention_heads, " and head_dim is ", c.head_dim,
         "; expected a product of at most ", kMaxTotalHeadDim);
  if (c.head_dim % 2 != 0)
    fail(code, location, ": head_dim is ", c.head_dim, "; rotary embeddings rotate pairs, so it must be even");
  if (c.sliding_window < 0 || (c.sliding_window == 0 && std::count(c.sliding.begin(), c.sliding.end(), true) > 0))
    fail(code, location, ": sliding_window is ", c.sliding_window,
         " in a model with sliding layers; expected at least 1");
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    fail(code, location, ": ", c.num_attention_heads, " heads cannot share ", c.num_key_value_heads,
         " key-value heads evenly; choose a divisor of the number of heads");
}

double ModelConfig::score_scale() const {
  return attention_scale > 0 ? attention_scale : 1 / std::sqrt(static_cast<double>(head_dim));
}

int64_t ModelConfig::padding_row() const {
  const Json pad = source.value("pad_token_id", Json());
  const bool is_row = pad.is_number_integer() && pad >= 0 && pad < vocab_size;
  return is_row ? pad.get<int64_t>() : -1;
}

int64_t ModelConfig::parameter_count() const {
  const int64_t heads = head_dim * num_attention_heads, kv_heads = head_dim * num_key_value_heads;
  int64_t block = 2 * hidden_size * (heads + kv_heads) + 3 * hidden_size * intermediate_size;
  block += (norm_after ? 4 : 2) * hidden_size;
  if (attention_bias) block += heads + 2 * kv_heads;
  if (output_bias) block += hidden_size;
  if (mlp_bias) block += 2 * intermediate_size + hidden_size;
  if (query_key_norm) block += 2 * head_dim;
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
  config.rope.theta = options.rope_theta;
  config.initializer_range = options.initializer_range;
  config.tie_word_embeddings = options.tie_embeddings;
  check_shape(config, ExitCode::kBadConfiguration, "model");
  return config;
}

}  // namespace keel
