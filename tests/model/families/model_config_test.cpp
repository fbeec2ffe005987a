#include "keel/model/network/model_config.h"

#include <gmock/gmock.h>

#include "keel/model/families/config_json.h"
#include "keel/model/network/causal_lm.h"
#include "tests/support/errors.h"
#include "tests/support/reference_model.h"

namespace keel {
namespace {

Json config_of(const std::string& type) {
  return {{"model_type", type},       {"vocab_size", 32},       {"hidden_size", 16},
          {"intermediate_size", 32},  {"num_hidden_layers", 2}, {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"head_dim", 4},          {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-6},     {"rope_theta", 1e4}};
}

/// The error for one changed value of a valid configuration.
std::string refusal(const std::string& type, const char* key, const Json& value) {
  Json changed = config_of(type);
  changed[key] = value;
  return error_of(3, [&] { from_config_json(changed, "folder/config.json"); });
}

TEST(ModelConfig, RejectsExcessiveSizesWithFileKeyAndValue) {
  const Json absurd[] = {0, -1, 1ll << 40, INT64_MAX, INT64_MIN, 9223372036854775808ull, UINT64_MAX};
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text"})
    for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"})
      for (const Json& value : absurd)
        EXPECT_THAT(refusal(type, key, value), AllOf(HasSubstr("folder/config.json: "), HasSubstr(key),
                                                     HasSubstr(value.dump()), HasSubstr("expected")));
  EXPECT_THAT(refusal("llama", "head_dim", 1 << 30),
              HasSubstr("folder/config.json: head_dim is 1073741824; expected 1 to 1048576"));
  for (const Json& value : {Json("64"), Json(64.0), Json(true), Json::array({64}), Json(1e300)})
    EXPECT_THAT(refusal("llama", "hidden_size", value), AllOf(HasSubstr("hidden_size"), HasSubstr("a whole number")));
}

TEST(ModelConfig, RejectsSizesWhoseProductOverflows) {
  Json config = config_of("llama");
  config["num_attention_heads"] = config["num_key_value_heads"] = 1 << 20;
  config["head_dim"] = 1 << 20;
  EXPECT_THAT(error_of(3, [&] { from_config_json(config, "config.json"); }),
              AllOf(HasSubstr("num_attention_heads is 1048576 and head_dim is 1048576"), HasSubstr("16777216")));
  // The largest accepted shape: its parameter count, computed by hand in 128 bits, fits 63 bits.
  config["head_dim"] = 16;
  config["hidden_size"] = 1 << 20;
  config["intermediate_size"] = 1 << 24;
  config["num_hidden_layers"] = 1 << 16;
  config["vocab_size"] = INT32_MAX;
  const __int128 width = 1 << 20, heads = 1 << 24;
  const __int128 block = width * heads * 4 + 3 * width * heads + 2 * width;
  const __int128 all = block * (1 << 16) + width + width * INT32_MAX * 2;
  ASSERT_LT(all, static_cast<__int128>(INT64_MAX));
  EXPECT_EQ(from_config_json(config, "config.json").parameter_count(), static_cast<int64_t>(all));
}

TEST(ModelConfig, RejectsNumbersOutsideFloat32AndInvalidOnes) {
  for (const char* key : {"rms_norm_eps", "rope_theta", "initializer_range"})
    for (const Json& value : {Json(1e308), Json(-1e39), Json("1")})
      EXPECT_THAT(refusal("llama", key, value),
                  AllOf(HasSubstr(key), HasSubstr("a number within the range of float32")));
  EXPECT_THAT(refusal("llama", "rope_theta", 1e-30), HasSubstr("above 1"));
  EXPECT_THAT(refusal("llama", "initializer_range", -0.02), HasSubstr("initializer_range is -0.02"));
  EXPECT_THAT(refusal("gemma2", "attn_logit_softcapping", -50), HasSubstr("attn_logit_softcapping is -50"));
  EXPECT_THAT(refusal("gemma2", "query_pre_attn_scalar", 0), HasSubstr("query_pre_attn_scalar"));
  for (const Json& window : {Json(1e300), Json(-4096), Json(UINT64_MAX), Json(0.5)})
    EXPECT_THAT(refusal("mistral", "sliding_window", window), HasSubstr("sliding_window"));
  const auto yarn = [](const char* key, double value) {
    Json scaling = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}};
    scaling[key] = value;
    return scaling;
  };
  for (const char* key : {"factor", "original_max_position_embeddings", "beta_fast", "attention_factor"})
    EXPECT_THAT(refusal("llama", "rope_scaling", yarn(key, -2)), AllOf(HasSubstr(key), HasSubstr("above 0")));
}

TEST(ModelConfig, TruncatesLongValuesInErrors) {
  EXPECT_LT(refusal("llama", "hidden_size", std::string(1 << 20, 'x')).size(), 300u);
  EXPECT_LT(refusal("llama", "rope_scaling", Json::array({std::string(1 << 20, 'x')})).size(), 300u);
}

TEST(RandomModel, ReportsTheRequiredMemoryBeforeAllocating) {
  ModelConfig config = tiny_config(4, 2, false);
  config.hidden_size = 1 << 20;
  config.intermediate_size = 1 << 24;
  config.num_hidden_layers = 1000;
  const std::string message = error_of(2, [&] { ModelWeights::random(config, 1, {at::kCPU}); });
  EXPECT_THAT(message, AllOf(HasSubstr("hidden_size 1048576"), HasSubstr("intermediate_size 16777216"),
                             HasSubstr("1000 layers"), HasSubstr("GiB, this machine has"), HasSubstr("smaller sizes")));
}

TEST(LoadedModel, IsComparedWithItsFilesBeforeAllocating) {
  ModelConfig config = tiny_config(4, 2, false);
  const std::vector<NamedTensor> tensors = tiny_model(config).parameters();
  config.hidden_size = 1 << 20;
  config.num_hidden_layers = 1 << 16;
  config.head_dim = 1 << 20;
  EXPECT_THAT(error_of(3, [&] { ModelWeights::from_tensors(config, tensors, at::kCPU, "model.safetensors"); }),
              AllOf(HasSubstr("model.embed_tokens.weight"), HasSubstr("config.json requires")));
}

}  // namespace
}  // namespace keel
