#include "keel/model/network/recompute.h"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "keel/model/network/critic.h"
#include "keel/model/network/packed_forward.h"
#include "tests/support/reference_model.h"

namespace keel {
namespace {

// A prompt of four tokens and two completions that share it, then a single sequence.
const std::vector<int64_t> kPackedTokens{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7};
const std::vector<int64_t> kPositions{0, 1, 2, 3, 4, 5, 6, 4, 5, 0, 1, 2, 3, 4};
const std::vector<Segment> kSegments{{.begin = 0, .length = 4},
                                     {.begin = 4, .length = 3, .prefix_begin = 0, .prefix_length = 4},
                                     {.begin = 7, .length = 2, .prefix_begin = 0, .prefix_length = 4},
                                     {.begin = 9, .length = 5}};

constexpr ExecutionOptions kRecompute{.recompute_activations = true};

struct Pass {
  Tensor hidden;
  std::vector<Tensor> gradients;
};

/// Forward and backward; returns the gradients of all trainable weights.
Pass pass_of(const CausalLm& model, double weight = 1) {
  const GradientSinks gradients(model.weights().trainable());
  const Tensor hidden = packed_hidden_states(model, int64_tensor(kPackedTokens), int64_tensor(kPositions), kSegments);
  hidden.backward((random_normal(hidden.sizes(), 9) * weight).to(hidden.scalar_type()));
  return {hidden.detach(), gradients.sums()};
}

void expect_the_same_bits(const ModelWeights& model, const std::string& what, bool bitwise = false) {
  SCOPED_TRACE(what);
  const Pass plain = pass_of({model, {.bitwise = bitwise}});
  const Pass again = pass_of({model, {.bitwise = bitwise, .recompute_activations = true}});
  EXPECT_TRUE(again.hidden.equal(plain.hidden));
  ASSERT_EQ(again.gradients.size(), plain.gradients.size());
  bool any = false;
  for (size_t i = 0; i < plain.gradients.size(); ++i) {
    EXPECT_TRUE(again.gradients[i].equal(plain.gradients[i])) << model.trainable()[i].name;
    any = any || plain.gradients[i].any().item<bool>();
  }
  EXPECT_TRUE(any);
}

ModelConfig like_gemma() {
  ModelConfig config = tiny_config(4, 2, true);
  config.norm_plus_one = config.norm_after = config.scaled_embedding = config.query_key_norm = true;
  config.attention_softcap = 5;
  config.sliding_window = 3;
  config.sliding = {true, false};
  config.sliding_rope = Rope{.theta = 50};
  return config;
}

TEST(Recompute, GivesBitwiseEqualGradients) {
  expect_the_same_bits(tiny_model(tiny_config(4, 2, false)), "llama");
  ModelConfig qwen = tiny_config(4, 2, true);
  qwen.attention_bias = qwen.query_key_norm = true;
  expect_the_same_bits(tiny_model(qwen), "qwen");
  expect_the_same_bits(tiny_model(like_gemma()), "gemma");
  ModelWeights narrow = tiny_model(tiny_config(4, 2, false));
  narrow.set_compute_type(at::kBFloat16);
  expect_the_same_bits(narrow, "bf16");
  expect_the_same_bits(tiny_model(tiny_config(4, 2, false)), "bitwise", /*bitwise=*/true);
}

// The embedding is frozen here, so the input of the first layer does not require grad.
TEST(Recompute, TrainsAdaptersOfAllLayers) {
  ModelWeights model = tiny_model(tiny_config(4, 2, false));
  model.add_adapter({.rank = 3}, 1);
  {
    const at::NoGradGuard no_grad;
    for (const NamedTensor& weight : model.adapter()) Tensor(weight.value).add_(random_normal(weight.value.sizes(), 7));
  }
  expect_the_same_bits(model, "adapter");
  for (const Tensor& gradient : pass_of({model, kRecompute}).gradients) EXPECT_TRUE(gradient.any().item<bool>());
}

TEST(Recompute, DoesNotRecomputeLayersBelowTheFirstAdapter) {
  ModelWeights model = tiny_model(tiny_config(4, 2, false));
  model.add_adapter({.rank = 3, .target_modules = {"model.layers.1.mlp.down_proj"}}, 1);
  expect_the_same_bits(model, "adapter of the last layer");
}

TEST(Recompute, AppliesToTheCriticToo) {
  const ModelWeights policy = tiny_model(tiny_config(4, 2, false));
  Critic critic = Critic::create(policy, {}, /*own_body=*/true);
  expect_the_same_bits(critic.body->weights(), "critic");
  critic.match_compute_type({policy, kRecompute});
  EXPECT_TRUE(critic.body->execution().recompute_activations);
}

TEST(Recompute, AccumulatesGradients) {
  const CausalLm model(tiny_model(tiny_config(4, 2, false)), kRecompute);
  const Pass once = pass_of(model);
  const GradientSinks gradients(model.weights().network());
  for (int pass = 0; pass < 2; ++pass) {
    const Tensor hidden = packed_hidden_states(model, int64_tensor(kPackedTokens), int64_tensor(kPositions), kSegments);
    hidden.backward(random_normal(hidden.sizes(), 9));
  }
  for (size_t i = 0; i < once.gradients.size(); ++i)
    EXPECT_TRUE(gradients.sums()[i].equal(once.gradients[i] * 2)) << model.weights().network()[i].name;
}

/// Current and peak bytes of CPU tensors.
struct Meter : c10::MemoryReportingInfoBase {
  int64_t now = 0, most = 0;
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    now += bytes;
    most = std::max(most, now);
  }
  bool memoryProfilingEnabled() const override { return true; }
};

TEST(Recompute, StoresLittleMoreThanTheInputsOfLayers) {
  ModelConfig config = tiny_config(4, 4, true);
  config.hidden_size = 32;
  config.head_dim = 8;
  config.intermediate_size = 128;
  config.num_hidden_layers = 12;
  config.max_position_embeddings = 256;
  const ModelWeights weights = tiny_model(config);
  const GradientSinks gradients(weights.network());
  const int64_t length = 200;
  const Tensor tokens = at::arange(length, at::kLong).remainder(11), positions = at::arange(length, at::kLong);
  const auto bytes = [&](bool after_forward, const CausalLm& model) {
    const auto meter = std::make_shared<Meter>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
    const Tensor hidden = packed_hidden_states(model, tokens, positions, {{.begin = 0, .length = length}});
    const int64_t kept = meter->now;
    hidden.sum().backward();
    return after_forward ? kept : meter->most;
  };
  const CausalLm plain(weights), recomputing(weights, kRecompute);
  const int64_t kept = bytes(true, plain), most = bytes(false, plain);
  const int64_t kept_again = bytes(true, recomputing), most_again = bytes(false, recomputing);
  const int64_t stream = length * config.hidden_size * 4;
  EXPECT_LT(kept_again, (2 * config.num_hidden_layers + 10) * stream);  // sum and norm of each layer
  EXPECT_GT(kept, 4 * kept_again);
  EXPECT_LT(most_again, most / 2);
}

}  // namespace
}  // namespace keel
