#include "keel/model/network/critic.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/model/folder/critic_folder.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/network/packed_forward.h"
#include "tests/support/errors.h"
#include "tests/support/reference_model.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

using testing::ElementsAre;

Tensor hidden_states(const CausalLm& model) {
  const at::NoGradGuard no_grad;
  return packed_hidden_states(model, int64_tensor({1, 4, 3, 9}), int64_tensor({0, 1, 2, 3}), {{0, 4}});
}

TEST(ValueHead, StartsAtZeroAndIsLinear) {
  const Tensor hidden = random_normal({5, 3}, 1);
  EXPECT_TRUE(at::equal(ValueHead::zero(3, at::kCPU).values(hidden), at::zeros({5})));
  const ValueHead head(at::tensor({1.0f, -2.0f, 0.5f}).view({1, 3}), at::tensor({0.25f}));
  EXPECT_EQ(to_vector(head.values(at::tensor({1.0f, 1.0f, 2.0f, 0.0f, 3.0f, -4.0f}).view({2, 3}))),
            (std::vector<double>{0.25, -7.75}));  // 1 - 2 + 1 + 0.25; -6 - 2 + 0.25
}

TEST(ValueHead, HasTheGradientsOfAutograd) {
  const Tensor weight = random_normal({1, 6}, 1), bias = random_normal({1}, 2), hidden = random_normal({9, 6}, 3);
  const Tensor gradient = random_normal({9}, 4);
  const ValueHead head(weight.clone(), bias.clone());
  const Tensor w = weight.to(at::kDouble).requires_grad_(), b = bias.to(at::kDouble).requires_grad_(),
               h = hidden.to(at::kDouble).requires_grad_();
  ((h * w).sum(1) + b).backward(gradient.to(at::kDouble));
  const GradientSinks gradients(head.weights());
  for (const int times : {1, 2}) {  // gradients add up
    EXPECT_LT(relative_difference(head.backward(hidden, gradient), h.grad()), 1e-6);
    EXPECT_LT(relative_difference(gradients.sums()[0], w.grad() * times), 1e-6);
    EXPECT_LT(relative_difference(gradients.sums()[1], b.grad() * times), 1e-6);
  }
}

TEST(Critic, HasASeparateBodyThatStartsAsACopyOfThePolicy) {
  const ModelWeights policy = tiny_model(tiny_config(/*heads=*/2, /*kv_heads=*/1, /*tied=*/false));
  const Critic critic = Critic::create(policy, {}, /*own_body=*/true);
  ASSERT_TRUE(critic.body);
  EXPECT_TRUE(at::equal(hidden_states(*critic.body), hidden_states(policy)));
  const std::vector<NamedTensor> parameters = MasterWeights().value_of(critic.weights());
  EXPECT_EQ(parameters.size(),
            policy.parameters().size() - 1 + 2);  // without LM head, with weight and bias of the value head
  const Tensor before = hidden_states(policy);
  for (const NamedTensor& parameter : parameters) {
    EXPECT_NE(parameter.name, "lm_head.weight");
    const at::NoGradGuard no_grad;
    parameter.value.add_(1);
  }
  EXPECT_TRUE(at::equal(hidden_states(policy), before));
  EXPECT_EQ(&critic.body_or(CausalLm(policy)), &*critic.body);
}

TEST(Critic, WithoutSeparateBodyIsAHeadOnThePolicy) {
  const ModelWeights policy = tiny_model(tiny_config(/*heads=*/2, /*kv_heads=*/1, /*tied=*/true));
  const Critic critic = Critic::create(policy, {}, /*own_body=*/false);
  EXPECT_EQ(critic.weights().size(), 2u);
  const CausalLm network(policy);
  EXPECT_EQ(&critic.body_or(network), &network);
}

class SavedCritic : public testing::TestWithParam<std::pair<bool, bool>> {  // separate body; tied embeddings
 protected:
  const TestFolder made_;
  const std::filesystem::path& folder_ = made_.path;
};

TEST_P(SavedCritic, IsRestoredBitwise) {
  const auto [own_body, tied] = GetParam();
  const ModelWeights policy = tiny_model(tiny_config(/*heads=*/2, /*kv_heads=*/1, tied));
  const Critic critic = Critic::create(policy, {}, own_body);
  uint64_t seed = 0;
  for (const NamedTensor& parameter : MasterWeights().value_of(critic.weights())) {
    const at::NoGradGuard no_grad;
    parameter.value.copy_(random_normal(parameter.value.sizes(), ++seed));
  }
  const int64_t width = policy.config().hidden_size;
  EXPECT_FALSE(read_critic(folder_, width, at::kCPU));
  write_critic(folder_, critic);
  EXPECT_THAT(list_directory(folder_), ElementsAre(own_body ? "critic" : "critic.safetensors"));
  const std::optional<Critic> back = read_critic(folder_, width, at::kCPU);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->body.has_value(), own_body);
  const std::vector<NamedTensor> want = MasterWeights().value_of(critic.weights()),
                                 got = MasterWeights().value_of(back->weights());
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].name, want[i].name);
    EXPECT_TRUE(at::equal(got[i].value, want[i].value)) << want[i].name;
  }
  EXPECT_THAT(error_of(3, [&] { read_critic(folder_, width + 1, at::kCPU); }), HasSubstr("score.weight has the shape"));
  if (!own_body) return;
  EXPECT_TRUE(at::equal(hidden_states(*back->body), hidden_states(*critic.body)));
  EXPECT_EQ(read_json_file(folder_ / "critic/config.json").at("architectures").at(0), "LlamaForTokenClassification");
  // It must not be loadable as a policy.
  EXPECT_THAT(error_of(3, [&] { read_model_folder(folder_ / "critic", at::kCPU); }), HasSubstr("score."));
}

INSTANTIATE_TEST_SUITE_P(Bodies, SavedCritic,
                         testing::Values(std::pair(false, false), std::pair(true, false), std::pair(true, true)));

}  // namespace
}  // namespace keel
