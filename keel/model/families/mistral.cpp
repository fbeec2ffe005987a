// Mistral and Mistral-Nemo: Llama, where every layer may slide.
#include "keel/model/families.h"

namespace keel {
namespace {

void read(const ConfigReader& r, ModelConfig& c) {
  c.rope = r.rope(1e4);
  c.sliding_window = static_cast<int64_t>(r.number_or_none("sliding_window", 4096));
  c.sliding.assign(c.num_hidden_layers, c.sliding_window > 0);
}

}  // namespace

const Family kMistral{"mistral", "MistralForCausalLM", read};

}  // namespace keel
