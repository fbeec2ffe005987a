// Qwen 2 and 2.5: Llama with attention biases. Qwen 3: query and key norms instead of biases.
#include "keel/model/families/config_reader.h"

namespace keel {
namespace {

void read_qwen(const ConfigReader& r, ModelConfig& c) {
  c.rope = r.rope();
  c.activation = r.activation("hidden_act", Activation::kSilu);
  if (r.absent("num_key_value_heads")) c.num_key_value_heads = 32;
  c.sliding_window = r.flag("use_sliding_window", false) ? r.nullable_integer("sliding_window", 4096) : 0;
  const int64_t full_layers = r.integer("max_window_layers", 28);
  c.sliding = r.sliding_layers(c.num_hidden_layers,
                               [&](int64_t layer) { return c.sliding_window > 0 && layer >= full_layers; });
}

void read_qwen2(const ConfigReader& r, ModelConfig& c) {
  read_qwen(r, c);
  c.attention_bias = true;
}

void read_qwen3(const ConfigReader& r, ModelConfig& c) {
  read_qwen(r, c);
  c.head_dim = r.integer("head_dim", 128);
  c.attention_bias = c.output_bias = r.flag("attention_bias", false);
  c.query_key_norm = true;
}

}  // namespace

const Family kQwen2{"qwen2", "Qwen2ForCausalLM", read_qwen2};
const Family kQwen3{"qwen3", "Qwen3ForCausalLM", read_qwen3};

}  // namespace keel
