#include "keel/train/update/gradients.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/reference_model.h"
#include "tests/support/tiny_rollouts.h"

namespace keel {
namespace {

/// Eight sequences of three prompts: unequal lengths, completions of one token and of none.
class GradientsTest : public testing::TestWithParam<bool> {
 protected:
  GradientsTest() {
    for (size_t i = 0; i < completions_.size(); ++i)
      sequences_.push_back({prompts_[prompt_of_[i]].tokens, completions_[i], prompt_of_[i]});
  }

  HeadCoefficients coefficients(const PackedBatch& batch, int64_t begin, int64_t end) const {
    const auto rows = [&](const std::vector<double>& values) {
      return repeat_per_target(batch, values).narrow(0, begin, end - begin);
    };
    return {rows(weights_), rows(entropy_weights_)};
  }

  /// The gradients of all sequences, packed in groups of `at_once` sequences.
  std::map<std::string, Tensor> packed_gradients(int64_t at_once, int64_t max_tokens, Scope scope,
                                                 at::ScalarType type = at::kFloat, double loss_scale = 1) const {
    ModelWeights model = tiny_model(config_);
    model.set_compute_type(type);
    const GradientSinks gradients(model.trainable());
    for (size_t begin = 0; begin < sequences_.size(); begin += at_once) {
      const std::span<const TrainingSequence> run(sequences_.data() + begin, at_once);
      for (PackedBatch batch : pack(run, max_tokens, at::kCPU)) {
        for (int64_t& sequence : batch.sequences) sequence += static_cast<int64_t>(begin);
        const auto of_rows = [&](const TokenStats&, int64_t first, int64_t last) {
          return coefficients(batch, first, last);
        };
        accumulate_gradients(model, batch, {.temperature = temperature_, .loss_scale = loss_scale}, scope, of_rows);
      }
    }
    std::map<std::string, Tensor> result;
    for (const auto& [name, weight] : model.trainable()) result[name] = weight.sink()->sum();
    return result;
  }

  std::vector<int64_t> whole(size_t i) const {
    std::vector<int64_t> text(sequences_[i].prompt.begin(), sequences_[i].prompt.end());
    text.insert(text.end(), completions_[i].begin(), completions_[i].end());
    return text;
  }

  ModelConfig config_ = tiny_config(6, 2, /*tied=*/GetParam());
  double temperature_ = 0.8;
  std::vector<Prompt> prompts_ = tiny_prompts();
  std::vector<int64_t> prompt_of_{0, 0, 0, 2, 2, 0, 4, 4};
  std::vector<std::vector<int32_t>> completions_{{3, 4, 5, 2},       {6},     {},     {10, 9, 2},
                                                 {3, 3, 3, 3, 3, 2}, {0, 10}, {5, 2}, {7}};
  std::vector<double> weights_{1, -0.5, 3, 0.25, -1.5, 2, 0, 0.75}, entropy_weights_{0.1, 0, 0, 0.2, -0.3, 0, 0.1, 0.4};
  std::vector<TrainingSequence> sequences_;
};

// A bf16 GEMM rounds its inputs and outputs by up to 2^-9 each. Forward and backward through two layers are about ten
// GEMMs; gradients of queries and keys are small differences. fp16 has three more bits, and needs a loss scale.
TEST_P(GradientsTest, InLowPrecisionEqualFloat32UpToRounding) {
  const auto exact = packed_gradients(8, 1000, Scope::kToken);
  for (const auto& [type, scale, limit] :
       {std::tuple{at::kBFloat16, 1.0, 20 * 0x1p-8}, {at::kHalf, 65536.0 / 256, 20 * 0x1p-11}}) {
    const auto narrow = packed_gradients(2, 20, Scope::kToken, type, scale);
    for (const auto& [name, gradient] : narrow) {
      EXPECT_EQ(gradient.scalar_type(), at::kFloat);
      const double difference = relative_difference(gradient / scale, exact.at(name));
      EXPECT_LT(difference, limit) << name << " in " << type;
      EXPECT_GT(difference, limit / 1000) << name << " was not computed in " << type;
    }
  }
}

TEST_P(GradientsTest, OfPackedSequencesEqualAutogradOfSingleSequences) {
  const ReferenceModel reference(tiny_model(config_));
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const Tensor logps = reference.log_probabilities(whole(i), temperature_);
    for (size_t t = 0; t < completions_[i].size(); ++t) {
      const Tensor row = logps[sequences_[i].prompt.size() + t - 1];
      (-weights_[i] * row[completions_[i][t]] + entropy_weights_[i] * (row.exp() * row).sum()).backward({}, true);
    }
  }
  for (const auto& [name, gradient] : packed_gradients(8, 1000, Scope::kToken))
    EXPECT_LT(relative_difference(gradient, reference.at(name).grad()), 5e-6) << name;
}

TEST_P(GradientsTest, DoNotDependOnMicroBatches) {
  const std::map<std::string, Tensor> want = packed_gradients(8, 1000, Scope::kToken);
  const auto expect_equal = [&](const std::map<std::string, Tensor>& got, const std::string& cut) {
    std::vector<Tensor> all_got, all_want;
    for (const auto& [name, gradient] : got) {
      // A gradient may be a small difference of large values, and float32 has a precision of 6e-8.
      EXPECT_LT(relative_difference(gradient, want.at(name)), 1e-5) << name << ", " << cut;
      all_got.push_back(gradient.flatten());
      all_want.push_back(want.at(name).flatten());
    }
    EXPECT_LT(relative_difference(at::cat(all_got), at::cat(all_want)), 1e-6) << cut;
  };
  for (const int64_t at_once : {4, 2, 1})
    expect_equal(packed_gradients(at_once, 1000, Scope::kToken), std::to_string(at_once) + " sequences at once");
  for (const int64_t max_tokens : {1, 12, 20})
    expect_equal(packed_gradients(8, max_tokens, Scope::kToken), std::to_string(max_tokens) + " tokens at once");
  expect_equal(packed_gradients(8, 1000, Scope::kSequence), "sequence scope");
}

TEST_P(GradientsTest, StatisticsEqualThoseOfSingleSequences) {
  const ModelWeights model = tiny_model(config_);
  const ReferenceModel reference(model);
  std::vector<double> logp, entropy;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const Tensor logps = reference.log_probabilities(whole(i), temperature_).detach();
    for (size_t t = 0; t < completions_[i].size(); ++t) {
      const Tensor row = logps[sequences_[i].prompt.size() + t - 1];
      logp.push_back(row[completions_[i][t]].item<double>());
      entropy.push_back(-(row.exp() * row).sum().item<double>());
    }
  }
  const std::vector<PackedBatch> batches = pack(sequences_, 1000, at::kCPU);
  ASSERT_EQ(batches.size(), 1u);
  const TokenStats stats = token_statistics(model, batches[0], temperature_);
  EXPECT_LT(largest_difference(stats.logp, at::tensor(logp, at::kDouble)), 1e-5);
  EXPECT_LT(largest_difference(stats.entropy, at::tensor(entropy, at::kDouble)), 1e-5);
  EXPECT_FALSE(stats.logp.requires_grad());
}

TEST_P(GradientsTest, OfABatchWithoutTargetsAreZero) {
  const ModelWeights model = tiny_model(config_);
  const GradientSinks gradients(model.trainable());
  const std::vector<TrainingSequence> nothing{sequences_[2]};
  const std::vector<PackedBatch> batches = pack(nothing, 1000, at::kCPU);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(token_statistics(model, batches[0], 1.0).logp.size(0), 0);
  accumulate_gradients(model, batches[0], {}, Scope::kToken, [](const TokenStats& stats, int64_t, int64_t) {
    return HeadCoefficients{at::ones_like(stats.logp), {}};
  });
  for (const auto& [name, weight] : model.trainable())
    EXPECT_EQ(weight.sink()->sum().abs().max().item<double>(), 0) << name;
}

INSTANTIATE_TEST_SUITE_P(WithHead, GradientsTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Tied" : "Untied"; });

}  // namespace
}  // namespace keel
