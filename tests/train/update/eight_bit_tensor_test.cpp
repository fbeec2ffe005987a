#include "keel/train/update/eight_bit_tensor.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "keel/train/update/optimizer.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

/// The codebook in float64, as in arXiv 2110.02861 and create_dynamic_map of bitsandbytes: for each power 10^(e - 6),
/// the midpoints of 2^e (unsigned: 2^(e + 1)) equal parts of [0.1, 1].
std::vector<double> written_out_map(bool is_signed) {
  std::vector<double> numbers{0, 1};
  for (int e = 0; e < 7; ++e) {
    const int count = (is_signed ? 1 : 2) << e;
    for (int i = 0; i < count; ++i) {
      const double low = 0.1 + 0.9 * i / count, high = 0.1 + 0.9 * (i + 1) / count;
      numbers.push_back((low + high) / 2 * std::pow(10.0, e - 6));
      if (is_signed) numbers.push_back(-numbers.back());
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST(EightBitTensor, HasTheCodebookOfBitsandbytes) {
  for (const bool is_signed : {false, true}) {
    const std::vector<double> written = written_out_map(is_signed);
    const Tensor map = dynamic_map(is_signed);
    ASSERT_EQ(written.size(), 256u);
    ASSERT_EQ(map.size(0), 256);
    for (int64_t i = 0; i < 256; ++i) EXPECT_NEAR(map[i].item<double>(), written[i], 1e-7 * std::abs(written[i])) << i;
  }
  EXPECT_NEAR(dynamic_map(true)[0].item<double>(), -0.99296875, 1e-7);  // 1 - 0.9 / 64 / 2
  EXPECT_NEAR(dynamic_map(false)[1].item<double>(), 3.25e-7, 1e-13);    // (0.1 + 0.55) / 2 * 1e-6
}

TEST(EightBitTensor, StoresEveryElementAsTheNearestCode) {
  for (const bool is_signed : {false, true}) {
    constexpr int64_t kCount = 3 * 256 + 17;  // the last block is not full
    Tensor numbers = random_normal({kCount}, 5) * at::logspace(-6, 2, kCount, 10, at::kFloat);
    if (!is_signed) numbers = numbers.square();
    numbers.narrow(0, 256, 256).zero_();
    EightBitTensor stored(kCount, is_signed, at::kCPU);
    EXPECT_TRUE(stored.read(0, kCount).equal(at::zeros({kCount})));
    stored.write(0, numbers);
    const Tensor read = stored.read(0, kCount);
    const std::vector<double> map = written_out_map(is_signed);
    for (int64_t i = 0; i < kCount; ++i) {
      const int64_t begin = i / 256 * 256, count = std::min<int64_t>(256, kCount - begin);
      const double largest = numbers.narrow(0, begin, count).abs().max().item<double>();
      const double number = numbers[i].item<double>(), got = read[i].item<double>();
      double nearest = std::numeric_limits<double>::infinity();
      for (const double share : map) nearest = std::min(nearest, std::abs(share * largest - number));
      EXPECT_NEAR(std::abs(got - number), nearest, 1e-6 * largest) << i << (is_signed ? " signed" : "");
    }
    // Whole blocks can be read and written separately.
    EXPECT_TRUE(stored.read(512, 17).equal(read.narrow(0, 512, 17)));
    stored.write(512, at::zeros({kCount - 512}));
    EXPECT_TRUE(stored.read(0, 512).equal(read.narrow(0, 0, 512)));
    EXPECT_EQ(stored.read(512, kCount - 512).abs().max().item<double>(), 0);
  }
}

/// A matrix large enough for 8 bits and a smaller vector, with seeded gradients.
struct Large {
  Weight matrix{random_normal({65, 70}, 1) * 0.1}, vector{at::ones({70})};
  MasterWeights masters() const { return MasterWeights({{"matrix", matrix}, {"vector", vector}}); }
  void set_gradients(uint64_t seed) const {
    matrix.sink()->sum().copy_(random_normal({65, 70}, seed));
    vector.sink()->sum().copy_(random_normal({70}, seed + 1000));
  }
};

std::vector<NamedTensor> saved_copies(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> result;
  for (const NamedTensor& tensor : tensors) result.push_back({tensor.name, tensor.value.clone()});
  return result;
}

const OptimizerOptions kSmall{.lr = 1e-2, .weight_decay = 0.1, .moments = "8bit"};

TEST(EightBitTensor, MomentsTakeAQuarterOfTheMemoryPlusOneSixtyFourth) {
  const Large weights;
  const auto bytes = [&](const OptimizerOptions& options) {
    size_t sum = 0;
    for (const NamedTensor& tensor : Optimizer(weights.masters(), options).state())
      if (tensor.name.starts_with("matrix") && !tensor.name.ends_with("updates")) sum += tensor.value.nbytes();
    return sum;
  };
  EXPECT_EQ(bytes({}), 2u * 4 * 65 * 70);
  EXPECT_EQ(bytes(kSmall), 2u * (18 * 256 + 18 * 4));  // 4550 elements are 18 blocks
  for (const NamedTensor& tensor : Optimizer(weights.masters(), kSmall).state())
    EXPECT_TRUE(!tensor.name.starts_with("vector") || tensor.value.scalar_type() == at::kFloat) << tensor.name;
}

// One AdamW update in float64 from the dequantized moments: w (1 - lr decay) - lr m / (1 - b1^t) / (sqrt(v / (1 -
// b2^t)) + eps), with gradients divided by their norm, which is above 1.
TEST(EightBitTensor, UpdatesEqualAdamWOnTheStoredMoments) {
  const Large weights;
  Optimizer optimizer(weights.masters(), kSmall);
  EightBitTensor first(65 * 70, true, at::kCPU), second(65 * 70, false, at::kCPU);
  Tensor expected = weights.matrix.value().to(at::kDouble);
  for (int t = 1; t <= 3; ++t) {
    weights.set_gradients(t);
    const Tensor of_matrix = weights.matrix.sink()->sum().to(at::kDouble).view({-1});
    const Tensor gradient = of_matrix / at::cat({of_matrix, weights.vector.sink()->sum().to(at::kDouble)}).norm();
    const Tensor m = first.read(0, 65 * 70).to(at::kDouble) * 0.9 + gradient * 0.1;
    const Tensor v = second.read(0, 65 * 70).to(at::kDouble) * 0.999 + gradient.square() * 0.001;
    const Tensor move = m / (1 - std::pow(0.9, t)) / ((v / (1 - std::pow(0.999, t))).sqrt() + 1e-8);
    expected = expected * (1 - 1e-2 * 0.1) - 1e-2 * move.view({65, 70});
    optimizer.step(1e-2);
    EXPECT_LT((weights.matrix.value() - expected).abs().max().item<double>(), 1e-5) << t;
    first.write(0, m.to(at::kFloat));
    second.write(0, v.to(at::kFloat));
  }
}

TEST(EightBitTensor, ResumesBitwiseAndSkipsNonFiniteGradients) {
  const Large straight, resumed;
  Optimizer one(straight.masters(), kSmall);
  for (int t = 1; t <= 2; ++t) straight.set_gradients(t), one.step(1e-2);
  const std::vector<NamedTensor> saved = saved_copies(one.state());
  straight.set_gradients(7);
  straight.vector.sink()->sum()[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(one.step(1e-2).skipped);
  const std::vector<NamedTensor> after = one.state();
  for (size_t i = 0; i < saved.size(); ++i) EXPECT_TRUE(after[i].value.equal(saved[i].value)) << saved[i].name;

  Optimizer other(resumed.masters(), kSmall);
  resumed.matrix.value().copy_(straight.matrix.value()), resumed.vector.value().copy_(straight.vector.value());
  other.load(saved, "here");
  for (int t = 3; t <= 4; ++t) {
    for (const Large* weights : {&straight, &resumed}) weights->set_gradients(t);
    one.step(1e-2), other.step(1e-2);
  }
  EXPECT_TRUE(resumed.matrix.value().equal(straight.matrix.value()));
  const std::vector<NamedTensor> left = one.state(), right = other.state();
  for (size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(left[i].value.equal(right[i].value)) << left[i].name;
}

TEST(EightBitTensor, ConvergesAboutAsFastAsFloat32) {
  // Least squares with 65 outputs from 70 inputs.
  const Tensor inputs = random_normal({200, 70}, 11), truth = random_normal({65, 70}, 12);
  const auto loss_after = [&](const std::string& moments, int updates) {
    const Weight weight(at::zeros({65, 70}));
    OptimizerOptions options{.lr = 3e-2, .max_grad_norm = 1e9};
    options.moments = moments;
    Optimizer optimizer(MasterWeights({{"weight", weight}}), options);
    double loss = 0;
    for (int i = 0; i < updates; ++i) {
      const Tensor error = (at::linear(inputs, weight.forward() - truth)).square().mean();
      error.backward();
      loss = error.item<double>();
      optimizer.step(3e-2);
    }
    return loss;
  };
  const double start = loss_after("float32", 1), wide = loss_after("float32", 60), small = loss_after("8bit", 60);
  EXPECT_LT(wide, 0.2 * start);
  EXPECT_LT(small, 1.1 * wide);
  EXPECT_NE(small, wide);
}

}  // namespace
}  // namespace keel
