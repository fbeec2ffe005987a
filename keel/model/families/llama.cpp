// Llama 2 and 3, SmolLM2, and all models that are saved as Llama.
#include "keel/model/families/config_reader.h"

namespace keel {
namespace {

void read_llama(const ConfigReader& r, ModelConfig& c) {
  c.rope = r.rope();
  c.activation = r.activation("hidden_act", Activation::kSilu);
  c.attention_bias = c.output_bias = r.flag("attention_bias", false);
  c.mlp_bias = r.flag("mlp_bias", false);
}

}  // namespace

const Family kLlama{"llama", "LlamaForCausalLM", read_llama};

}  // namespace keel
