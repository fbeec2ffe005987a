// Any bytes as config.json or adapter_config.json: rejected as bad input, or a valid shape without overflow. Build and
// run: fuzz/README.md.

#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "fuzz/may_be_refused.h"
#include "keel/core/files/json_file.h"
#include "keel/model/families/config_json.h"
#include "keel/model/folder/adapter_config.h"
#include "keel/model/network/model_config.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  keel::fuzz::may_be_refused([&] {
    const keel::ModelConfig config = keel::from_config_json(keel::parse_json_file(text, "config.json"), "config.json");
    require(config.parameter_count() > 0);
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) config.is_sliding(layer);
    keel::to_config_json(config, keel::Json::object(), at::kFloat);
  });
  keel::fuzz::may_be_refused([&] {
    const std::string place = "adapter_config.json";
    const keel::AdapterConfig config(keel::parse_json_file(text, place), place);
    for (const char* layer : {"model.layers.0.self_attn.q_proj", "model.layers.11.mlp.up_proj", "lm_head"}) {
      config.targets(layer);
      require(config.rank(layer) > 0 && std::abs(config.scale(layer)) < 1e7);
    }
  });
  return 0;
}
