#include "keel/model/network/causal_lm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "keel/core/files/hash.h"
#include "tests/model/network/hidden_of.h"
#include "tests/support/errors.h"
#include "tests/support/reference_model.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

struct Shape {
  int64_t heads, kv_heads, width;
  bool tied;
};

class Shapes : public testing::TestWithParam<Shape> {
 protected:
  ModelWeights model_ =
      tiny_model(tiny_config(GetParam().heads, GetParam().kv_heads, GetParam().tied, GetParam().width));
};

TEST_P(Shapes, ForwardMatchesAFloat64Reimplementation) {
  const std::vector<int64_t> tokens{3, 1, 4, 1, 5, 9, 2, 6, 5, 10, 0};
  const Tensor want = ReferenceModel(model_).hidden(tokens), got = hidden_of(model_, tokens);
  EXPECT_LT(relative_difference(got, want), 2e-6);
}

TEST_P(Shapes, GradientsMatchAFloat64Reimplementation) {
  const std::vector<int64_t> tokens{7, 7, 0, 2, 10, 3};
  const Tensor direction = random_normal({6, 12}, 5, at::kDouble);
  const ReferenceModel reference(model_);
  reference.hidden(tokens).backward(direction);
  const GradientSinks gradients(model_.network());
  hidden_of(model_, tokens).backward(direction.to(at::kFloat));
  for (size_t i = 0; i < model_.network().size(); ++i) {
    const std::string& name = model_.network()[i].name;
    if (name == "lm_head.weight") continue;  // does not affect hidden states
    EXPECT_LT(relative_difference(gradients.sums()[i], reference.at(name).grad()), 5e-6) << name;
  }
}

TEST_P(Shapes, ParametersHaveHuggingFaceNamesAndShapes) {
  const auto [heads, kv_heads, width, tied] = GetParam();
  std::map<std::string, std::vector<int64_t>> want{{"model.embed_tokens.weight", {11, 12}},
                                                   {"model.norm.weight", {12}}};
  if (!tied) want["lm_head.weight"] = {11, 12};
  for (const std::string block : {"model.layers.0.", "model.layers.1."}) {
    want[block + "input_layernorm.weight"] = want[block + "post_attention_layernorm.weight"] = {12};
    want[block + "self_attn.q_proj.weight"] = {heads * width, 12};
    want[block + "self_attn.k_proj.weight"] = want[block + "self_attn.v_proj.weight"] = {kv_heads * width, 12};
    want[block + "self_attn.o_proj.weight"] = {12, heads * width};
    want[block + "mlp.gate_proj.weight"] = want[block + "mlp.up_proj.weight"] = {20, 12};
    want[block + "mlp.down_proj.weight"] = {12, 20};
  }
  std::map<std::string, std::vector<int64_t>> got;
  int64_t numbers = 0;
  for (const NamedTensor& parameter : model_.parameters()) {
    EXPECT_TRUE(got.emplace(parameter.name, parameter.value.sizes().vec()).second) << parameter.name;
    numbers += parameter.value.numel();
  }
  EXPECT_EQ(got, want);
  EXPECT_EQ(numbers, model_.config().parameter_count());
  const Tensor embedding = model_.parameters().front().value;
  EXPECT_EQ(model_.head().value().is_same(embedding), tied);
}

INSTANTIATE_TEST_SUITE_P(Heads, Shapes,
                         testing::Values(Shape{4, 4, 4, false}, Shape{3, 3, 4, true}, Shape{3, 1, 4, false},
                                         Shape{6, 2, 2, true}, Shape{5, 5, 6, false}, Shape{1, 1, 12, false}),
                         [](const auto& test) {
                           return std::to_string(test.param.heads) + "QueryHeads" +
                                  std::to_string(test.param.kv_heads) + "KeyValueHeads" +
                                  (test.param.tied ? "Tied" : "Untied");
                         });

TEST(CausalLmForward, UsesTheGivenPositions) {
  const CausalLm model(tiny_model(tiny_config(3, 1, false)));
  const auto alone = [](int64_t, const AttentionConfig&, const Heads& heads) { return heads.rotated().query; };
  const auto at_position = [&](int64_t position) {
    return model.forward({int64_tensor({4}), int64_tensor({position}), alone});
  };
  EXPECT_GT(largest_difference(at_position(0), at_position(5)), 1e-3);
  EXPECT_EQ(largest_difference(at_position(5), at_position(5)), 0);
}

TEST(CausalLmRandom, DependsOnTheSeedAndHasTheConfiguredDeviation) {
  ModelConfig config = tiny_config(4, 2, false);
  config.vocab_size = 2000;
  config.initializer_range = 0.05;
  const auto one = ModelWeights::random(config, 7, {at::kCPU}).parameters();
  const auto same = ModelWeights::random(config, 7, {at::kCPU}).parameters();
  const auto other = ModelWeights::random(config, 8, {at::kCPU}).parameters();
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(one[i].value.equal(same[i].value)) << one[i].name;
    if (one[i].value.dim() == 1) {
      EXPECT_TRUE(one[i].value.eq(1).all().item<bool>()) << one[i].name;
    } else {
      EXPECT_FALSE(one[i].value.equal(other[i].value)) << one[i].name;
    }
  }
  const Tensor embedding = one.front().value.detach();  // 24,000 values: standard errors 0.0003 and 0.0002
  EXPECT_NEAR(embedding.mean().item<double>(), 0, 0.0015);
  EXPECT_NEAR(embedding.std().item<double>(), 0.05, 0.001);
  EXPECT_NEAR((embedding.abs() > 0.05).to(at::kDouble).mean().item<double>(), 0.3173, 0.015);  // beyond one sigma
  EXPECT_FALSE(one[2].value.flatten().narrow(0, 0, 8).equal(one[3].value.flatten().narrow(0, 0, 8)))
      << "two parameters draw the same numbers";
  // Philox4x32-10 of counter (parameter, 0, pair, 2 << 24) and key (7, 0), Box-Muller: from another program.
  const Tensor first = embedding.flatten().to(at::kDouble);
  const std::vector<std::pair<int64_t, double>> want{{0, 0.031076840100507475}, {1, 0.05543907739667275},
                                                     {2, -0.01346870060055565}, {3, 0.005157178197291515},
                                                     {10, 0.05260591243844438}, {11, 0.045687577504435375}};
  for (const auto& [place, number] : want) EXPECT_EQ(first[place].item<double>(), static_cast<float>(number));
}

TEST(CausalLmRandom, InLowPrecisionIsTheRoundedFloat32Model) {
  ModelConfig config = tiny_config(4, 2, false);
  ModelWeights trained = ModelWeights::random(config, 7, {at::kCPU});
  ModelWeights frozen = ModelWeights::random(config, 7, {at::kCPU, at::kBFloat16});
  MasterWeights masters;
  for (ModelWeights* model : {&trained, &frozen}) {
    model->add_adapter({.rank = 2}, 3);
    masters = model->set_compute_type(at::kBFloat16);
  }
  const auto want = trained.parameters(), got = frozen.parameters();
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].value.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(got[i].value.equal(want[i].value)) << want[i].name;
  }
  EXPECT_EQ(masters.weights().size(), 2 * 7 * config.num_hidden_layers);
  EXPECT_EQ(masters.value_of(frozen.trainable()[0].weight).scalar_type(), at::kFloat);
}

TEST(CausalLmLoad, RoundsEachWeightAfterItsBytesWerePassedOn) {
  const ModelConfig config = tiny_config(4, 2, false);
  std::vector<NamedTensor> tensors = ModelWeights::random(config, 7, {at::kCPU}).parameters();
  WeightSource source{.origin = "here", .shapes = {}, .read = [&](const std::string& name) {
                        return std::ranges::find(tensors, name, &NamedTensor::name)->value.detach().clone();
                      }};
  for (const NamedTensor& tensor : tensors) source.shapes[tensor.name] = tensor.value.sizes().vec();
  const auto into = [](Crc32c& checksum) { return [&](std::span<const std::byte> bytes) { checksum.update(bytes); }; };
  Crc32c wide, narrow, drawn, changed;
  ModelWeights::load(config, source, {at::kCPU, at::kFloat, into(wide)});
  const auto rounded = ModelWeights::load(config, source, {at::kCPU, at::kBFloat16, into(narrow)}).parameters();
  for (size_t i = 0; i < tensors.size(); ++i)
    EXPECT_TRUE(rounded[i].value.equal(tensors[i].value.to(at::kBFloat16))) << tensors[i].name;
  EXPECT_EQ(narrow.value(), wide.value());
  ModelWeights::random(config, 7, {at::kCPU, at::kBFloat16, into(drawn)});
  EXPECT_EQ(drawn.value(), wide.value());
  tensors.back().value = tensors.back().value.detach() * (1 + 1e-6);  // equal in bfloat16
  ModelWeights::load(config, source, {at::kCPU, at::kBFloat16, into(changed)});
  EXPECT_NE(changed.value(), wide.value());
}

TEST(CausalLmFromTensors, TakesACopyOfEveryTensor) {
  const ModelConfig config = tiny_config(3, 1, false);
  const ModelWeights original = tiny_model(config);
  const ModelWeights copy = ModelWeights::from_tensors(config, original.parameters(), at::kCPU, "here");
  EXPECT_EQ(largest_difference(hidden_of(copy, {1, 2, 3}), hidden_of(original, {1, 2, 3})), 0);
  const at::NoGradGuard no_grad;
  const Tensor before = copy.head().value().clone();
  original.head().value().zero_();
  EXPECT_TRUE(copy.head().value().equal(before));
}

TEST(CausalLmFromTensors, RejectsMissingExtraAndMisshapenTensorsByName) {
  const ModelConfig config = tiny_config(3, 1, false);
  const std::vector<NamedTensor> good = tiny_model(config).parameters();
  const auto message_for = [&](const std::vector<NamedTensor>& tensors) {
    return error_of(3, [&] { ModelWeights::from_tensors(config, tensors, at::kCPU, "folder/model.safetensors"); });
  };
  std::vector<NamedTensor> missing = good, surplus = good, misshapen = good;
  missing.erase(missing.begin() + 3);
  surplus.push_back({"model.layers.0.self_attn.q_proj.bias", at::zeros({12})});
  misshapen[3].value = at::zeros({12, 5});
  for (const auto& [tensors, name] :
       {std::pair{missing, good[3].name}, {surplus, surplus.back().name}, {misshapen, good[3].name}}) {
    EXPECT_THAT(message_for(tensors), AllOf(HasSubstr(name), HasSubstr("folder/model.safetensors")));
  }
}

TEST(CausalLmFromTensors, AcceptsAStoredTiedHeadAndRejectsOneThatDiffers) {
  ModelConfig config = tiny_config(3, 1, true);
  std::vector<NamedTensor> tensors = tiny_model(config).parameters();
  tensors.push_back({"lm_head.weight", tensors.front().value.detach().clone()});
  ASSERT_EQ(tensors.front().name, "model.embed_tokens.weight");
  const auto load = [&] { return ModelWeights::from_tensors(config, tensors, at::kCPU, "folder"); };
  EXPECT_TRUE(load().head().value().equal(tensors.front().value));
  tensors.back().value[1][2] += 0.5;
  const std::string message = error_of(3, load);
  for (const char* part : {"folder", "lm_head.weight", "tie_word_embeddings", "false"})
    EXPECT_THAT(message, HasSubstr(part));
  config.tie_word_embeddings = false;  // the fix in the message
  EXPECT_TRUE(load().head().value().equal(tensors.back().value));
  config.tie_word_embeddings = true;
  tensors.back().value = at::zeros({3, 2});
  EXPECT_THAT(error_of(3, load), HasSubstr("lm_head.weight"));
}

TEST(ModelWeightsMerged, ReplacesTheSevenMatricesOfEachBlockAndSharesTheRest) {
  const ModelWeights model = tiny_model(tiny_config(3, 1, false));
  const ModelWeights doubled = model.merged({}, [](const Tensor& weight) { return weight * 2; });
  const auto before = model.parameters(), after = doubled.parameters();
  int replaced = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].name.find("_proj.") == std::string::npos) {
      EXPECT_TRUE(after[i].value.is_same(before[i].value)) << before[i].name;
    } else {
      EXPECT_TRUE(after[i].value.equal(before[i].value * 2)) << before[i].name;
      ++replaced;
    }
  }
  EXPECT_EQ(replaced, 7 * 2);
}

}  // namespace
}  // namespace keel
