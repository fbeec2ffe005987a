#include "keel/train/update/optimizer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/errors.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

/// A matrix and a vector, and their gradients of three steps.
struct Weights {
  Weight matrix{at::tensor({0.5f, -0.25f, 1.0f, 2.0f}).view({2, 2})}, vector{at::tensor({1.0f, -1.0f})};

  MasterWeights masters() const { return MasterWeights({{"vector", vector}, {"matrix", matrix}}); }
  std::vector<NamedTensor> named() const { return masters().tensors(); }
  void set_gradients(size_t round) const {
    static const std::vector<std::vector<float>> matrices{{3, 0, 0, -4}, {0.25, -0.5, 0.125, 0.5}, {-1, 2, 0.5, 1}};
    static const std::vector<std::vector<float>> vectors{{12, 0}, {0, 0.25}, {1.5, -3}};
    matrix.sink()->sum().copy_(at::tensor(matrices[round]).view({2, 2}));
    vector.sink()->sum().copy_(at::tensor(vectors[round]));
  }
};

const OptimizerOptions kOptions{.beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.3, .max_grad_norm = 1.0};
const std::vector<double> kLearningRates{0.1, 0.05, 0.2};

std::vector<NamedTensor> copy_of(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> result;
  for (const NamedTensor& tensor : tensors) result.push_back({tensor.name, tensor.value.clone()});
  return result;
}

void expect_bitwise(const std::vector<NamedTensor>& got, const std::vector<NamedTensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, want[i].name);
    EXPECT_TRUE(got[i].value.equal(want[i].value)) << got[i].name;
  }
}

// Results of torch.optim.AdamW in PyTorch 2.13 with float64: weight_decay=0.3 for the matrix, 0 for the vector;
// gradients clipped to a global norm of 1.
TEST(Optimizer, EqualsTorchAdamWWithClippingAndDecayOfMatrices) {
  const Weights weights;
  Optimizer optimizer(weights.masters(), kOptions);
  const std::vector<double> norms{13.0, 0.8003905296791061, 4.183300132670378};
  const std::vector<std::vector<double>> matrices{
      {0.3854314636574842, -0.2425, 0.97, 2.039676052828308},
      {0.3297799049109555, -0.20067874104762576, 0.9175785927477386, 1.99233319750863},
      {0.27309193072599525, -0.20424594100813995, 0.6882966261928802, 1.7734743317681945}};
  const std::vector<std::vector<double>> vectors{
      {0.9001082160992259, -1.0}, {0.8678708189498385, -1.038079070804003}, {0.7265582423038763, -0.9458975937621077}};
  for (size_t round = 0; round < 3; ++round) {
    weights.set_gradients(round);
    const Optimizer::Outcome outcome = optimizer.step(kLearningRates[round]);
    EXPECT_FALSE(outcome.skipped);
    EXPECT_EQ(outcome.clipped, norms[round] > 1);
    EXPECT_NEAR(outcome.grad_norm, norms[round], 1e-6 * norms[round]);
    EXPECT_LT(largest_difference(weights.matrix.value().flatten(), at::tensor(matrices[round], at::kDouble)), 1e-6)
        << round;
    EXPECT_LT(largest_difference(weights.vector.value(), at::tensor(vectors[round], at::kDouble)), 1e-6) << round;
    EXPECT_EQ(weights.matrix.sink()->sum().abs().max().item<double>(), 0) << "gradients are cleared";
    EXPECT_EQ(weights.vector.sink()->sum().abs().max().item<double>(), 0);
  }
}

TEST(Optimizer, SkipsNonFiniteGradientsAndChangesNothing) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
    const Weights weights, clean;
    Optimizer optimizer(weights.masters(), kOptions), undisturbed(clean.masters(), kOptions);
    for (const Weights* w : {&weights, &clean}) w->set_gradients(0);
    optimizer.step(0.1);
    undisturbed.step(0.1);
    const std::vector<NamedTensor> before = copy_of(weights.named()), state = copy_of(optimizer.state());

    weights.set_gradients(1);
    weights.vector.sink()->sum()[1] = poison;
    const Optimizer::Outcome outcome = optimizer.step(0.1);
    EXPECT_TRUE(outcome.skipped);
    EXPECT_FALSE(std::isfinite(outcome.grad_norm));
    expect_bitwise(weights.named(), before);
    expect_bitwise(optimizer.state(), state);
    EXPECT_EQ(weights.vector.sink()->sum().abs().sum().item<double>(), 0) << "the poison must not stay";

    // Later updates do not depend on the skipped one.
    for (const Weights* w : {&weights, &clean}) w->set_gradients(2);
    optimizer.step(0.1);
    undisturbed.step(0.1);
    expect_bitwise(weights.named(), clean.named());
    expect_bitwise(optimizer.state(), undisturbed.state());
  }
}

TEST(GradientNorms, HaveMeanMaximumAndClippedFraction) {
  GradientNorms norms;
  EXPECT_FALSE(norms.metrics());
  norms.add({.grad_norm = 0.5});
  norms.add({.grad_norm = 4, .clipped = true});
  norms.add({.grad_norm = std::numeric_limits<double>::infinity(), .skipped = true});
  norms.add({.grad_norm = 1.5, .clipped = true});
  const GradientMetrics metrics = norms.metrics().value();
  EXPECT_EQ(metrics.mean, 2.0);
  EXPECT_EQ(metrics.max, 4.0);
  EXPECT_EQ(metrics.clipped, 2.0 / 3);
}

TEST(Optimizer, ResumesBitwiseFromASavedState) {
  const Weights straight, resumed;
  Optimizer one(straight.masters(), kOptions);
  for (size_t round = 0; round < 2; ++round) {
    straight.set_gradients(round);
    one.step(kLearningRates[round]);
  }
  Optimizer other(resumed.masters(), kOptions);
  resumed.matrix.value().copy_(straight.matrix.value());
  resumed.vector.value().copy_(straight.vector.value());
  other.load(copy_of(one.state()), "here");
  expect_bitwise(other.state(), one.state());
  for (const Weights* w : {&straight, &resumed}) w->set_gradients(2);
  one.step(0.2);
  other.step(0.2);
  expect_bitwise(resumed.named(), straight.named());
  expect_bitwise(other.state(), one.state());
}

TEST(Optimizer, RefusesImpossibleStates) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Weights weights;
  Optimizer optimizer(weights.masters(), kOptions);
  weights.set_gradients(0);
  optimizer.step(0.1);
  const std::vector<NamedTensor> sound = copy_of(optimizer.state());
  EXPECT_NO_THROW(optimizer.load(sound, "here"));
  for (const auto& [name, number] : std::vector<std::pair<std::string, float>>{{"matrix.first_moment", nan},
                                                                               {"matrix.first_moment", -infinity},
                                                                               {"vector.second_moment", infinity},
                                                                               {"vector.second_moment", -1e-9f},
                                                                               {"matrix.updates", infinity},
                                                                               {"matrix.updates", 1e30f},
                                                                               {"matrix.updates", 0.5f},
                                                                               {"vector.updates", -1}}) {
    std::vector<NamedTensor> forged = copy_of(sound);
    for (const NamedTensor& tensor : forged)
      if (tensor.name == name) tensor.value.view({-1})[0] = number;
    EXPECT_THAT(error_of(3, [&] { optimizer.load(forged, "step-7/optimizer.safetensors"); }),
                HasSubstr("step-7/optimizer.safetensors: tensor \"" + name + "\""));
  }
}

TEST(Optimizer, NamesItsStateAfterTheParametersAndRefusesAnotherModels) {
  const Weights weights;
  Optimizer optimizer(weights.masters(), kOptions);
  std::vector<NamedTensor> state = copy_of(optimizer.state());
  std::vector<std::string> names;
  for (const NamedTensor& tensor : state) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"matrix.first_moment", "matrix.second_moment", "matrix.updates",
                                             "vector.first_moment", "vector.second_moment", "vector.updates"}));
  const std::string lost = state[1].name;
  state[1].value = at::zeros({3, 3});
  const std::string misshapen = error_of(3, [&] { optimizer.load(state, "step-7/optimizer.safetensors"); });
  state.erase(state.begin() + 1);
  const std::string missing = error_of(3, [&] { optimizer.load(state, "step-7/optimizer.safetensors"); });
  for (const std::string& message : {misshapen, missing}) {
    EXPECT_THAT(message, HasSubstr(lost));
    EXPECT_THAT(message, HasSubstr("step-7/optimizer.safetensors"));
  }
}

TEST(OptimizerOptions, WarmUpLinearlyToAConstantRate) {
  const OptimizerOptions options{.lr = 8.0, .warmup_updates = 4};
  EXPECT_EQ(options.lr_at(0, 100), 0);
  EXPECT_EQ(options.lr_at(1, 100), 2);
  EXPECT_EQ(options.lr_at(3, 100), 6);
  EXPECT_EQ(options.lr_at(4, 100), 8);
  EXPECT_EQ(options.lr_at(1000, 100), 8);
  EXPECT_EQ(OptimizerOptions{.lr = 3.0}.lr_at(0, 100), 3);
}

// All updates of each schedule are compared with transformers in tests/parity/schedule_test.py.
TEST(OptimizerOptions, DecayToTheMinimumRateAtTheEndOfTheRun) {
  const OptimizerOptions linear{.lr = 8.0, .schedule = "linear", .warmup_updates = 0.31};  // 3.72 of 12 updates
  EXPECT_EQ(linear.lr_at(3, 12), 6);
  EXPECT_EQ(linear.lr_at(4, 12), 8);
  EXPECT_EQ(linear.lr_at(8, 12), 4);
  EXPECT_EQ(linear.lr_at(11, 12), 1);
  EXPECT_EQ(linear.lr_at(12, 12), 0);
  EXPECT_EQ(linear.lr_at(40, 12), 0);
  const OptimizerOptions floored{.lr = 8.0, .schedule = "linear", .min_lr_ratio = 0.25};
  EXPECT_EQ(floored.lr_at(5, 10), 5);  // halfway from 8 to 2
  EXPECT_EQ(floored.lr_at(10, 10), 2);
  const OptimizerOptions cosine{.lr = 8.0, .schedule = "cosine", .min_lr_ratio = 0.5};
  EXPECT_EQ(cosine.lr_at(0, 12), 8);
  EXPECT_NEAR(cosine.lr_at(4, 12), 7, 1e-14);  // cos(60 degrees) = 1/2
  EXPECT_NEAR(cosine.lr_at(6, 12), 6, 1e-14);
  EXPECT_EQ(cosine.lr_at(12, 12), 4);
  EXPECT_EQ(cosine.lr_at(30, 12), 4);
}

// verl 0.9.1: lr_lambda(step) of its get_constant_schedule_with_warmup and get_cosine_schedule_with_warmup, by hand,
// for all mini-batches of a step; a fractional warm-up is int(fraction * steps).
TEST(OptimizerOptions, ChangeTheLearningRateOncePerStep) {
  const auto rates = [](const OptimizerOptions& options, int steps) {
    std::vector<double> result;
    for (int update = 0; update < 3 * steps; ++update) result.push_back(options.lr_at(update, 3 * steps, 3));
    return result;
  };
  using testing::ElementsAre;
  const OptimizerOptions rises{.lr = 8.0, .schedule_per = "step", .warmup_updates = 6};  // 2 steps of 3
  EXPECT_THAT(rates(rises, 4), ElementsAre(0, 0, 0, 4, 4, 4, 8, 8, 8, 8, 8, 8));
  const OptimizerOptions share{.lr = 8.0, .schedule_per = "step", .warmup_updates = 0.7};  // int(2.8) steps
  EXPECT_THAT(rates(share, 4), ElementsAre(0, 0, 0, 4, 4, 4, 8, 8, 8, 8, 8, 8));
  const OptimizerOptions falls{.lr = 8.0, .schedule = "linear", .schedule_per = "step"};
  EXPECT_THAT(rates(falls, 4), ElementsAre(8, 8, 8, 6, 6, 6, 4, 4, 4, 2, 2, 2));
  const std::vector<double> cosine = rates({.lr = 8.0, .schedule = "cosine", .schedule_per = "step"}, 3);
  EXPECT_NEAR(cosine[5], 6, 1e-14);  // cos(60 degrees) = 1/2
  EXPECT_EQ(cosine[3], cosine[5]);
  const OptimizerOptions by_updates{.lr = 8.0, .warmup_updates = 6};
  EXPECT_EQ(by_updates.lr_at(1, 12, 3), 8.0 / 6);
}

/// A trainable weight of ones in another compute type.
struct Ones {
  explicit Ones(at::ScalarType type) { weight.set_value(master.to(type)); }
  Tensor master = at::ones({2, 2});
  Weight weight{master};
  MasterWeights masters{std::vector<NamedWeight>{{"weight", weight}}};
};

// Below 1, bf16 values are 2^-8 apart, so it cannot represent a step of 1e-4. With a constant gradient every Adam step
// is the learning rate: after 19 steps 0.9981 rounds to 1, after 20 steps 0.9980 rounds to 1 - 2^-8.
TEST(Optimizer, KeepsUpdatesThatAreTooSmallForTheComputeType) {
  const Ones ones(at::kBFloat16);
  Optimizer optimizer(ones.masters, {.eps = 1e-12});
  for (int update = 1; update <= 25; ++update) {
    ones.weight.sink()->sum().fill_(0.25);
    optimizer.step(1e-4);
    EXPECT_NEAR(ones.master[0][0].item<double>(), 1 - 1e-4 * update, 2e-6);
    EXPECT_EQ(ones.weight.value()[1][1].item<double>(), update < 20 ? 1 : 1 - 0x1p-8) << update;
  }
}

// In float32, 0.5 / 1e-320 overflows and 1e-320 is 0.
TEST(Optimizer, StaysFiniteWithATinyMaxGradNorm) {
  const Ones ones(at::kFloat);
  Optimizer optimizer(ones.masters, {.weight_decay = 0, .max_grad_norm = 1e-320});
  for (const double gradient : {0.25, 0.0, 1e15}) {
    ones.weight.sink()->sum().fill_(gradient);
    const Optimizer::Outcome outcome = optimizer.step(0.1);
    EXPECT_FALSE(outcome.skipped);
    EXPECT_EQ(outcome.clipped, gradient > 0);
    EXPECT_TRUE(ones.master.equal(at::ones({2, 2}))) << ones.master;
  }
}

TEST(Optimizer, DividesGradientsByTheLossScaleOfFloat16) {
  const Ones ones(at::kHalf), plain(at::kFloat);
  Optimizer optimizer(ones.masters, kOptions), without(plain.masters, kOptions);
  EXPECT_EQ(optimizer.loss_scale(), 65536);
  EXPECT_EQ(without.loss_scale(), std::nullopt);
  for (int round = 0; round < 3; ++round) {
    ones.weight.sink()->sum().fill_(65536 * 0.75);
    plain.weight.sink()->sum().fill_(0.75);
    EXPECT_EQ(optimizer.step(0.1).grad_norm, without.step(0.1).grad_norm);
    EXPECT_TRUE(ones.master.equal(plain.master));
    EXPECT_TRUE(ones.weight.value().equal(plain.master.to(at::kHalf)));
  }
}

TEST(Optimizer, SkipsAnOverflowAndHalvesTheScaleDownToOne) {
  const Ones ones(at::kHalf);
  Optimizer optimizer(ones.masters, kOptions);
  for (int i = 15; i >= 0; --i) {
    ones.weight.sink()->sum()[0][1] = std::numeric_limits<float>::infinity();
    const Optimizer::Outcome outcome = optimizer.step(0.1);
    EXPECT_TRUE(outcome.skipped && outcome.overflowed);
    EXPECT_EQ(optimizer.loss_scale(), std::ldexp(1, i));
    EXPECT_TRUE(ones.master.equal(at::ones({2, 2})));
    EXPECT_EQ(ones.weight.sink()->sum().abs().sum().item<double>(), 0);
  }
  ones.weight.sink()->sum()[0][1] = std::numeric_limits<float>::infinity();
  const Optimizer::Outcome outcome = optimizer.step(0.1);
  EXPECT_TRUE(outcome.skipped);
  EXPECT_FALSE(outcome.overflowed);
}

TEST(Optimizer, SavesTheLossScaleAndItsCount) {
  const Ones ones(at::kHalf), others(at::kHalf);
  Optimizer optimizer(ones.masters, kOptions, "critic."), again(others.masters, kOptions, "critic.");
  optimizer.step(0.1), optimizer.step(0.1);
  ones.weight.sink()->sum().fill_(std::numeric_limits<float>::quiet_NaN());
  optimizer.step(0.1), optimizer.step(0.1);
  const NamedTensor saved = optimizer.state().back();
  EXPECT_EQ(saved.name, "critic.loss_scale");
  EXPECT_TRUE(saved.value.equal(at::tensor({32768.0f, 1.0f})));
  again.load(copy_of(optimizer.state()), "here");
  EXPECT_EQ(again.loss_scale(), 32768);
  expect_bitwise(again.state(), optimizer.state());
}

}  // namespace
}  // namespace keel
