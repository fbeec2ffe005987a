// Mistral and Mistral-Nemo: Llama with an optional sliding window in all layers. Ministral: in some layers.
#include "keel/model/families/config_reader.h"

namespace keel {
namespace {

void read_mistral(const ConfigReader& r, ModelConfig& c) {
  c.rope = r.rope();
  c.activation = r.activation("hidden_act", Activation::kSilu);
  if (r.absent("num_key_value_heads")) c.num_key_value_heads = 8;
  c.sliding_window = r.nullable_integer("sliding_window", 4096);
  c.sliding = r.sliding_layers(c.num_hidden_layers, [&](int64_t) { return c.sliding_window > 0; });
}

}  // namespace

const Family kMistral{"mistral", "MistralForCausalLM", read_mistral};

}  // namespace keel
