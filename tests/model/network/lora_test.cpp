#include "keel/model/network/lora_options.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "keel/core/files/file.h"
#include "keel/model/folder/adapter_config.h"
#include "keel/model/folder/adapter_folder.h"
#include "keel/model/formats/safetensors/safetensors.h"
#include "tests/model/network/hidden_of.h"
#include "tests/support/errors.h"
#include "tests/support/reference_model.h"
#include "tests/support/tensors.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

const std::vector<int64_t> kTokens{3, 1, 4, 1, 5, 9, 2, 6};

/// A small model with an adapter whose B is not 0.
ModelWeights adapted(const LoraOptions& options) {
  ModelWeights model = tiny_model(tiny_config(4, 2, false));
  model.add_adapter(options, /*seed=*/3);
  const at::NoGradGuard no_grad;
  uint64_t seed = 50;
  for (const NamedTensor& weight : model.adapter())
    Tensor(weight.value).add_(random_normal(weight.value.sizes(), ++seed) * 0.3);
  return model;
}

TEST(Lora, DoesNotChangeAnUntrainedModel) {
  ModelWeights model = tiny_model(tiny_config(4, 2, false));
  const Tensor before = hidden_of(model, kTokens).detach();
  model.add_adapter({.rank = 3}, 1);
  EXPECT_TRUE(hidden_of(model, kTokens).detach().equal(before));
}

TEST(Lora, MergedMatchesUnmerged) {
  for (const bool stabilized : {false, true}) {
    const ModelWeights model = adapted({.rank = 3, .alpha = 7, .rank_stabilized = stabilized});
    const ModelWeights merged = model.merged({});
    EXPECT_TRUE(merged.adapter().empty());
    EXPECT_LT(relative_difference(hidden_of(merged, kTokens), hidden_of(model, kTokens).to(at::kDouble)), 2e-6);
    // By hand, for one layer: W + alpha / rank (or sqrt(rank)) B A.
    const auto find = [](const std::vector<NamedTensor>& tensors, const std::string& name) {
      for (const NamedTensor& tensor : tensors)
        if (tensor.name == name) return tensor.value.detach();
      throw std::runtime_error(name);
    };
    const std::string layer = "model.layers.1.mlp.down_proj";
    const Tensor want =
        find(model.parameters(), layer + ".weight") +
        at::matmul(find(model.adapter(), layer + ".lora_B.weight"), find(model.adapter(), layer + ".lora_A.weight")) *
            (stabilized ? 7 / std::sqrt(3.0) : 7 / 3.0);
    EXPECT_LT(largest_difference(find(merged.parameters(), layer + ".weight"), want), 1e-5);
  }
}

/// Whether two networks share the memory of their weights.
bool share_weights(const ModelWeights& one, const ModelWeights& other) {
  const std::vector<NamedTensor> a = one.parameters(), b = other.parameters();
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const NamedTensor& x, const NamedTensor& y) {
    return x.name == y.name && x.value.const_data_ptr() == y.value.const_data_ptr();
  });
}

/// Adds 1 to all trainable weights.
void train_a_bit(const ModelWeights& model) {
  const at::NoGradGuard no_grad;
  for (const NamedWeight& weight : model.trainable()) weight.weight.value().add_(1);
}

TEST(Lora, AFrozenCopyDoesNotChangeAndSharesTheBase) {
  const ModelWeights model = adapted({.rank = 3, .target_modules = {"q_proj", "down_proj"}});
  const ModelWeights frozen = model.frozen_copy();
  const Tensor before = hidden_of(model, kTokens).detach(), merged = hidden_of(model.merged({}), kTokens).detach();
  EXPECT_TRUE(hidden_of(frozen, kTokens).detach().equal(before));
  EXPECT_TRUE(share_weights(frozen, model));
  train_a_bit(model);
  EXPECT_GT(largest_difference(hidden_of(model, kTokens).detach(), before), 0.01);
  EXPECT_TRUE(hidden_of(frozen, kTokens).equal(before));
  EXPECT_LT(relative_difference(hidden_of(frozen, kTokens), merged.to(at::kDouble)), 2e-6);  // over a full model
}

TEST(Lora, AFrozenCopyOfANewAdapterIsTheBaseModel) {
  ModelWeights model = tiny_model(tiny_config(4, 2, false));
  const Tensor base = hidden_of(model, kTokens).detach();
  model.add_adapter({.rank = 3}, 1);
  const ModelWeights frozen = model.frozen_copy();
  EXPECT_TRUE(frozen.adapter().empty());
  EXPECT_TRUE(share_weights(frozen, model));
  train_a_bit(model);
  EXPECT_TRUE(hidden_of(frozen, kTokens).equal(base));
}

TEST(Lora, AFrozenCopyWithoutAdapterCopiesAllWeights) {
  const ModelWeights model = tiny_model(tiny_config(4, 2, true));
  const ModelWeights frozen = model.frozen_copy();
  const Tensor before = hidden_of(model, kTokens).detach();
  for (size_t i = 0; i < model.parameters().size(); ++i)
    EXPECT_NE(model.parameters()[i].value.const_data_ptr(), frozen.parameters()[i].value.const_data_ptr());
  train_a_bit(model);
  EXPECT_TRUE(hidden_of(frozen, kTokens).equal(before));
}

TEST(Lora, InLowPrecisionStoresTheBaseOnceAndMergesBeforeRounding) {
  ModelWeights model = adapted({.rank = 2, .alpha = 3, .target_modules = {"q_proj"}});
  const Tensor exact = hidden_of(model, kTokens).detach();
  const MasterWeights masters = model.set_compute_type(at::kBFloat16);
  for (const NamedTensor& weight : model.parameters()) EXPECT_EQ(weight.value.scalar_type(), at::kBFloat16);
  for (const NamedTensor& weight : masters.tensors()) EXPECT_EQ(weight.value.scalar_type(), at::kFloat);
  EXPECT_LT(relative_difference(hidden_of(model, kTokens), exact), 10 * 0x1p-8);
  const GradientSinks gradients(model.trainable());
  hidden_of(model, kTokens).sum().backward();
  EXPECT_GT(gradients.sums()[1].abs().sum().item<double>(), 0);

  const std::string layer = "model.layers.1.self_attn.q_proj";
  std::map<std::string, Tensor> weights;
  for (const NamedTensor& weight : model.parameters()) weights[weight.name] = weight.value.detach();
  for (const NamedTensor& weight : masters.tensors()) weights[weight.name] = weight.value;
  const Tensor product = weights[layer + ".lora_B.weight"].matmul(weights[layer + ".lora_A.weight"]);
  const Tensor want = (weights[layer + ".weight"].to(at::kFloat) + 1.5 * product).to(at::kBFloat16);
  for (const NamedTensor& weight : model.merged(masters).parameters()) {
    if (weight.name != layer + ".weight") continue;
    EXPECT_EQ(weight.value.scalar_type(), at::kBFloat16);
    EXPECT_LE((weight.value != want).sum().item<int64_t>(), 1);  // rounding of ties
  }
}

TEST(Lora, TrainsOnlyItsOwnTensors) {
  const ModelWeights model = adapted({.rank = 2, .target_modules = {"q_proj", "v_proj"}});
  EXPECT_EQ(model.adapter().size(), 2u * 2 * 2);  // A and B of two modules in two blocks
  EXPECT_EQ(model.trainable().size(), model.adapter().size());
  const GradientSinks gradients(model.trainable());
  hidden_of(model, kTokens).sum().backward();
  for (const NamedWeight& weight : model.network()) EXPECT_EQ(weight.weight.sink(), nullptr) << weight.name;
  for (const Tensor& gradient : gradients.sums()) EXPECT_GT(gradient.abs().sum().item<double>(), 0);
}

TEST(Lora, IsInitialisedAsInPeft) {
  ModelWeights model = tiny_model(tiny_config(4, 2, false));
  model.add_adapter({.rank = 64}, 1);
  for (const NamedTensor& weight : model.adapter()) {
    if (weight.name.ends_with("lora_B.weight")) {
      EXPECT_EQ(weight.value.abs().sum().item<double>(), 0);
      continue;
    }
    // Uniform within 1/sqrt(in): the maximum is near the bound, the standard deviation is bound/sqrt(3).
    const double bound = 1 / std::sqrt(static_cast<double>(weight.value.size(1)));
    EXPECT_LE(weight.value.abs().max().item<double>(), bound);
    EXPECT_NEAR(weight.value.std().item<double>(), bound / std::sqrt(3.0), 0.1 * bound);
  }
}

TEST(Lora, IsUnchangedByWritingAndReading) {
  const TestFolder made;
  const std::filesystem::path& folder = made.path;
  const LoraOptions options{.rank = 3, .alpha = 5, .target_modules = {"k_proj", "up_proj"}};
  const ModelWeights model = adapted(options);
  write_adapter(folder, model.adapter(), to_adapter_json(options));
  ModelWeights other = tiny_model(tiny_config(4, 2, false));
  EXPECT_EQ(read_adapter(folder, other), to_adapter_json(options));
  EXPECT_TRUE(hidden_of(other, kTokens).equal(hidden_of(model, kTokens)));
}

TEST(Lora, SuggestsMergingIfTheHeadOrTheEmbeddingIsAdapted) {
  for (const char* name : {"base_model.model.lm_head.lora_A.weight", "base_model.model.lm_head.weight",
                           "base_model.model.model.embed_tokens.lora_embedding_A"}) {
    for (const bool alone : {false, true}) {
      const TestFolder made;
      const std::filesystem::path& folder = made.path;
      const LoraOptions options{.rank = 3, .target_modules = {"k_proj"}};
      write_adapter(folder, adapted(options).adapter(), to_adapter_json(options));
      std::vector<std::pair<std::string, Tensor>> tensors{{name, at::zeros({3, 8})}};
      const SafetensorsFile file = SafetensorsFile::open(folder / "adapter_model.safetensors");
      for (const TensorInfo& info : file.tensors())
        if (!alone) tensors.emplace_back(info.name, file.read_float32(info.name));
      write_safetensors(folder / "adapter_model.safetensors", tensors, {{"format", "pt"}});
      Json config = to_adapter_json(options);
      if (alone) config["target_modules"] = {"lm_head"};
      write_atomically(folder / "adapter_config.json", config.dump());
      ModelWeights model = tiny_model(tiny_config(4, 2, false));
      EXPECT_THAT(error_of(3, [&] { read_adapter(folder, model); }),
                  AllOf(HasSubstr(name), HasSubstr("merge_and_unload")));
    }
  }
}

TEST(Lora, RejectsUnsupportedConfigurations) {
  const Json valid = to_adapter_json({.rank = 3});
  const auto refusal = [&](const char* key, const Json& value) {
    Json changed = valid;
    changed[key] = value;
    return error_of(3, [&] { AdapterConfig(changed, "adapter_config.json"); });
  };
  EXPECT_THAT(refusal("use_dora", true), HasSubstr("use_dora"));
  EXPECT_THAT(refusal("bias", "all"), HasSubstr("bias"));
  EXPECT_THAT(refusal("modules_to_save", {"lm_head"}),
              AllOf(HasSubstr("modules_to_save"), HasSubstr("merge_and_unload")));
  for (const Json& rank :
       {Json(0), Json(-3), Json(1.5), Json("many"), Json(1ull << 40), Json(UINT64_MAX), Json(1e300)}) {
    EXPECT_THAT(refusal("r", rank), AllOf(HasSubstr("r is " + rank.dump()), HasSubstr("a rank from 1 to 65536")));
    EXPECT_THAT(refusal("rank_pattern", {{"q_proj", rank}}), HasSubstr("rank_pattern is " + rank.dump()));
  }
  for (const Json& alpha : {Json(1e308), Json(-1e7), Json("16"), Json(UINT64_MAX)}) {
    EXPECT_THAT(refusal("lora_alpha", alpha),
                AllOf(HasSubstr("lora_alpha is " + alpha.dump()), HasSubstr("a number up to 1e+06")));
    EXPECT_THAT(refusal("alpha_pattern", {{"q_proj", alpha}}), HasSubstr("alpha_pattern is " + alpha.dump()));
  }
  for (const Json& block : {Json(-1), Json(UINT64_MAX), Json(0.5)})
    EXPECT_THAT(refusal("layers_to_transform", {block}), HasSubstr("layers_to_transform"));
  EXPECT_THAT(refusal("peft_type", "IA3"), HasSubstr("IA3"));
  EXPECT_THAT(refusal("target_modules", "(proj"), HasSubstr("target_modules"));  // not a regular expression
  EXPECT_THAT(refusal("target_modules", {1, 2}), HasSubstr("target_modules"));
  EXPECT_THAT(refusal("rank_pattern", {{"q_proj", "two"}}), HasSubstr("rank_pattern"));
  EXPECT_THAT(refusal("layers_to_transform", "first"), HasSubstr("layers_to_transform"));
  for (const char* key : {"r", "lora_alpha"}) {
    EXPECT_THAT(refusal(key, nullptr), AllOf(HasSubstr(std::string("no key \"") + key + "\""), HasSubstr("adapter"),
                                             Not(HasSubstr("a model's config.json"))));
  }
  ModelWeights model = tiny_model(tiny_config(4, 2, false));
  EXPECT_THAT(error_of(2, [&] { model.add_adapter({.rank = 1, .target_modules = {"qproj"}}, 1); }), HasSubstr("qproj"));
}

/// Keys of PEFT's LoraConfig, with values for which the model is W + scale B A on the base weights, and other values.
TEST(Lora, AcceptsOnlyConfigurationsThatItComputesAsPeft) {
  const Json valid = to_adapter_json({.rank = 3});
  const auto read = [&](const std::string& key, const Json& value) {
    Json changed = valid;
    changed[key] = value;
    AdapterConfig(changed, "adapter_config.json");
  };
  const std::vector<std::pair<std::string, Json>> refused{
      {"init_lora_weights", "pissa"},
      {"init_lora_weights", "pissa_niter_16"},
      {"init_lora_weights", "olora"},
      {"init_lora_weights", "corda"},
      {"init_lora_weights", "loftq"},
      {"init_lora_weights", "lora_ga"},
      {"init_lora_weights", "of_next_year"},
      {"init_lora_weights", 3},
      {"loftq_config", {{"loftq_bits", 4}}},
      {"alora_invocation_tokens", {1, 2}},
      {"use_qalora", true},
      {"use_bdlora", {{"nblocks", 2}}},
      {"arrow_config", {{"top_k", 3}}},
      {"kasa_config", {{"beta", 0.1}}},
      {"monteclora_config", {{"num_samples", 8}}},
      {"velora_config", {{"num_groups", 4}}},
  };
  for (const auto& [key, value] : refused) {
    SCOPED_TRACE(key + ": " + value.dump());
    EXPECT_THAT(error_of(3, [&] { read(key, value); }), AllOf(HasSubstr(key), HasSubstr(value.dump())));
  }
  for (const Json& start : {Json(true), Json(false), Json(nullptr), Json("gaussian"), Json("orthogonal"), Json("eva")})
    EXPECT_NO_THROW(read("init_lora_weights", start)) << start.dump();
  for (const char* key : {"alora_invocation_tokens", "use_qalora", "use_bdlora", "arrow_config", "kasa_config",
                          "monteclora_config", "velora_config", "loftq_config", "eva_config", "corda_config"})
    EXPECT_NO_THROW(read(key, nullptr)) << key;
  EXPECT_NO_THROW(read("use_qalora", false));
  EXPECT_NO_THROW(read("use_bdlora", false));
  EXPECT_NO_THROW(read("loftq_config", Json::object()));  // PEFT writes this by default
}

TEST(Lora, NamesTensorsThatDoNotMatch) {
  const TestFolder made;
  const std::filesystem::path& folder = made.path;
  const LoraOptions options{.rank = 3, .target_modules = {"q_proj"}};
  const ModelWeights model = adapted(options);
  const auto refusal = [&](const auto& change) {
    write_adapter(folder, model.adapter(), to_adapter_json(options));
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const NamedTensor& weight : model.adapter())
      tensors.emplace_back("base_model.model." + weight.name, weight.value.detach());
    change(tensors);
    write_safetensors(folder / "adapter_model.safetensors", tensors, {});
    ModelWeights other = tiny_model(tiny_config(4, 2, false));
    return error_of(3, [&] { read_adapter(folder, other); });
  };
  const auto names = [](const char* part) {  // names the expected file
    return AllOf(HasSubstr(part), HasSubstr("the adapter of this model with its own adapter_config.json"));
  };
  EXPECT_THAT(refusal([](auto& tensors) { tensors.pop_back(); }), names("layers.1.self_attn.q_proj.lora_B.weight"));
  EXPECT_THAT(refusal([](auto& tensors) { tensors[0].second = at::zeros({2, 12}); }), names("[2, 12]"));
  EXPECT_THAT(refusal([](auto& tensors) { tensors.emplace_back("stray", at::zeros({1})); }), names("stray"));
}

}  // namespace
}  // namespace keel
