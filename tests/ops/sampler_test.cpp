#include "keel/ops/sampler.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "keel/core/philox.h"
#include "keel/kernels/row_math.h"
#include "tests/support/hard_logits.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

const std::vector<double> kLogits{1.5,  -0.5, 0.25, 2.0,
                                  -3.0, 0.0,  1.0};  // 7 tokens: not a multiple of the 4 words of a noise block

Tensor rows_of(const std::vector<double>& logits, int64_t count) {
  return at::tensor(logits, at::kDouble).to(at::kFloat).unsqueeze(0).repeat({count, 1});
}

/// Pearson's statistic of counts for given probabilities.
double chi_square(const Tensor& tokens, const std::vector<double>& probabilities) {
  const std::vector<double> counts = to_vector(at::bincount(tokens, {}, static_cast<int64_t>(probabilities.size())));
  double statistic = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double want = probabilities[i] * static_cast<double>(tokens.size(0));
    statistic += (counts[i] - want) * (counts[i] - want) / want;
  }
  return statistic;
}

std::vector<double> softmax(const std::vector<double>& logits, double temperature) {
  std::vector<double> result;
  double sum = 0;
  for (const double x : logits) sum += std::exp(x / temperature);
  for (const double x : logits) result.push_back(std::exp(x / temperature) / sum);
  return result;
}

class Temperatures : public testing::TestWithParam<double> {};

TEST_P(Temperatures, SampleFromTheSoftmaxOverRolloutsAndPositions) {
  const double temperature = GetParam();
  const int64_t draws = 200000;
  const Tensor logits = rows_of(kLogits, draws), many = at::arange(draws, at::kLong), one = at::full_like(many, 3);
  const std::vector<double> want = softmax(kLogits, temperature);
  // The 0.9999 quantile of chi-square with 6 degrees of freedom is 27.86.
  EXPECT_LT(chi_square(sample(logits, temperature, 11, many, one).tokens, want), 27.86);
  EXPECT_LT(chi_square(sample(logits, temperature, 11, one, many).tokens, want), 27.86);
  // A slightly different distribution is rejected.
  EXPECT_GT(chi_square(sample(logits, temperature * 1.05, 11, many, one).tokens, want), 27.86);
}

TEST_P(Temperatures, ReportTheLogSoftmaxOfTheSampledToken) {
  const double temperature = GetParam();
  const Tensor logits = random_normal({500, 37}, 1) * 4, ids = at::arange(500, at::kLong);
  const SampledTokens drawn = sample(logits, temperature, 5, ids, ids);
  const Tensor want =
      at::log_softmax(logits.to(at::kDouble) / temperature, 1).gather(1, drawn.tokens.unsqueeze(1)).squeeze(1);
  EXPECT_LT(largest_difference(drawn.logp, want), 5e-6);
  EXPECT_LE(drawn.logp.max().item<double>(), 0);
}

INSTANTIATE_TEST_SUITE_P(Of, Temperatures, testing::Values(0.5, 1.0, 2.0));

TEST(Sampler, NormalisesWithoutBias) {
  for (const std::string& kind : kHardLogits) {
    for (const int64_t vocab : kVocabularies) {
      std::map<double, LogProbErrors> errors;  // keyed by temperature
      for (int64_t seed = 0; seed < kDrawnForAMean / kRowsAtATime; ++seed) {
        const Tensor logits = hard_logits(kind, kRowsAtATime, vocab, seed), ids = at::arange(kRowsAtATime, at::kLong);
        for (const double temperature : kTemperatures) {
          SCOPED_TRACE(kind + ", vocabulary " + std::to_string(vocab) + ", temperature " + std::to_string(temperature));
          const SampledTokens drawn = sample(logits, temperature, seed, ids, ids);
          const ExactLogProbs exact(logits, temperature, drawn.tokens);
          errors[temperature].add(drawn.logp, exact.logp);
          EXPECT_LT(((drawn.other_logp - exact.other_logp) / exact.other_logp).abs().max().item<double>(), 1e-6);
        }
      }
      for (const auto& [temperature, error] : errors) {
        SCOPED_TRACE(kind + ", vocabulary " + std::to_string(vocab) + ", temperature " + std::to_string(temperature));
        error.expect_no_bias();
      }
    }
  }
}

TEST(Sampler, OtherLogProbIsAccurateForProbabilitiesNearOneAndWithTopP) {
  const Tensor ids = int64_tensor({0});
  for (const double gap : {20.0, 30.0, 100.0, 1e4}) {  // 1 - p from 1e-8 to e^-10000
    const Tensor logits = at::tensor({gap, 0.0, 0.5, -1.0}, at::kDouble).to(at::kFloat).unsqueeze(0);
    const double others = std::log(1 + std::exp(0.5) + std::exp(-1.0)) - gap;
    const SampledTokens drawn = sample(logits, 1, 1, ids, ids);
    EXPECT_EQ(drawn.tokens.item<int64_t>(), 0);
    EXPECT_NEAR(drawn.other_logp.item<double>() / others, 1, 1e-6);
    EXPECT_NEAR(sample(logits, 0, 1, ids, ids).other_logp.item<double>() / others, 1, 1e-6);
    EXPECT_NEAR(sample(logits, 10, 1, ids, ids).other_logp.item<double>(),
                ExactLogProbs(logits, 10, sample(logits, 10, 1, ids, ids).tokens).other_logp.item<double>(), 1e-3);
    // With the two most likely tokens p = 1 / (1 + e^(0.5 - gap)).
    const SampledTokens two = sample(filter_logits(logits, 1, {.top_p = 1 - 4e-9}), 1, 1, ids, ids);
    if (gap == 20) {
      EXPECT_NEAR(two.other_logp.item<double>(), 0.5 - gap, 1e-6);
    }
    const SampledTokens only = sample(filter_logits(logits, 1, {.top_p = 0.5}), 1, 1, ids, ids);
    EXPECT_EQ(only.logp.item<float>(), 0);
    EXPECT_EQ(only.other_logp.item<float>(), -std::numeric_limits<float>::infinity());
  }
}

/// The number of words whose Gumbel noise exceeds `level`. Noise falls as the word grows.
uint64_t words_above(float level) {
  uint64_t low = 0, high = uint64_t{1} << 32;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (gumbel(static_cast<uint32_t>(middle)) > level)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

TEST(Gumbel, FallsAsTheWordGrows) {
  float last = gumbel(0);
  EXPECT_NEAR(last, 33 * std::log(2.0), 1e-5);
  for (uint64_t word = 1; word < (uint64_t{1} << 32); word += 1 + word / 5000) {
    const float noise = gumbel(static_cast<uint32_t>(word));
    ASSERT_LE(noise, last) << word;
    ASSERT_TRUE(std::isfinite(noise)) << word;
    last = noise;
  }
  EXPECT_TRUE(std::isfinite(gumbel(~0u)));
}

TEST(Gumbel, HasTheRightTail) {
  // P(noise > g) = 1 - exp(-exp(-g)), counted over all words.
  for (double level = -2.5; level < 21; level += 0.37) {
    const double fraction = static_cast<double>(words_above(static_cast<float>(level))) / 4294967296.0;
    const double want = -std::expm1(-std::exp(-level));
    EXPECT_NEAR(fraction, want, 4e-6 * want + 0.6 / 4294967296.0) << level;
  }
}

TEST(Gumbel, SamplesRareTokensAtTheRightRate) {
  // Of two tokens, the one of probability p is sampled if its noise exceeds the other's by log((1 - p) / p). The test
  // counts over the words of the rare token and integrates over those of the other.
  for (const double p : {0.3, 1e-3, 1e-6, 1e-7, 1e-8, 1e-9}) {
    constexpr int kParts = 100000;
    double drawn = 0;
    for (int part = 0; part < kParts; ++part) {
      const double word = (part + 0.5) / kParts * 4294967296.0;
      const float other = gumbel(static_cast<uint32_t>(word));
      drawn += static_cast<double>(words_above(static_cast<float>(other + std::log1p(-p) - std::log(p)))) / kParts;
    }
    EXPECT_NEAR(drawn / 4294967296.0 / p, 1, p < 1e-8 ? 0.02 : 1e-3) << p;
  }
}

TEST(Sampler, SamplesATokenOfProbability1e8ExactlyIfItsNoiseIsLargeEnough) {
  // Uses keys whose second word is tiny, and logits at which the second token is just sampled or just not.
  int found = 0;
  for (uint64_t id = 0; found < 4; ++id) {
    const PhiloxBlock words = random_block(9, Stream::kSampling, id, 0, 0);
    if (words.word[1] >= 1024) continue;
    ++found;
    const auto noise = [&](int i) { return -std::log(-std::log1p(-(words.word[i] + 0.5) / 4294967296.0)); };
    const Tensor ids = int64_tensor({static_cast<int64_t>(id)}), position = int64_tensor({0});
    for (const double margin : {-1e-3, 1e-3}) {
      const double logit = noise(0) - noise(1) + margin;
      EXPECT_LT(logit, -8);
      const Tensor logits = at::tensor({0.0, logit}, at::kDouble).to(at::kFloat).unsqueeze(0);
      EXPECT_EQ(sample(logits, 1, 9, ids, position).tokens.item<int64_t>(), margin > 0 ? 1 : 0) << id;
      EXPECT_EQ(sample(logits + 3000, 1, 9, ids, position).tokens.item<int64_t>(), margin > 0 ? 1 : 0) << id;
    }
  }
}

TEST(Sampler, ConsecutivePositionsAreIndependent) {
  const int64_t draws = 200000;
  const std::vector<double> logits{0.5, -0.5, 1.0}, p = softmax(logits, 1);
  const Tensor ids = at::arange(draws, at::kLong), rows = rows_of(logits, draws);
  const Tensor now = sample(rows, 1, 3, ids, at::full_like(ids, 8)).tokens;
  const Tensor next = sample(rows, 1, 3, ids, at::full_like(ids, 9)).tokens;
  const Tensor neighbour = sample(rows, 1, 3, ids + 1, at::full_like(ids, 8)).tokens;
  std::vector<double> pairs;
  for (const double a : p)
    for (const double b : p) pairs.push_back(a * b);
  // The 0.9999 quantile of chi-square with 8 degrees of freedom is 31.83.
  EXPECT_LT(chi_square(now * 3 + next, pairs), 31.83);
  EXPECT_LT(chi_square(now * 3 + neighbour, pairs), 31.83);
}

TEST(Sampler, TheTokenDoesNotDependOnTheRowIndex) {
  const int64_t rows = 64;
  const Tensor logits = random_normal({rows, 9}, 2), ids = at::arange(rows, at::kLong) * 1000003,
               positions = at::arange(rows, at::kLong) % 5;
  const SampledTokens together = sample(logits, 1, 42, ids, positions);
  const Tensor order = at::randperm(rows, at::kLong);
  const SampledTokens shuffled =
      sample(logits.index_select(0, order), 1, 42, ids.index_select(0, order), positions.index_select(0, order));
  EXPECT_TRUE(shuffled.tokens.equal(together.tokens.index_select(0, order)));
  EXPECT_TRUE(shuffled.logp.equal(together.logp.index_select(0, order)));
  for (int64_t i = 0; i < rows; ++i) {
    const SampledTokens alone = sample(logits.narrow(0, i, 1), 1, 42, ids.narrow(0, i, 1), positions.narrow(0, i, 1));
    EXPECT_EQ(alone.tokens.item<int64_t>(), together.tokens[i].item<int64_t>());
  }
}

TEST(Sampler, TheTokenDependsOnEveryPartOfTheKey) {
  const int64_t rows = 256;
  const Tensor logits = at::zeros({rows, 50}), ids = at::arange(rows, at::kLong), positions = at::zeros_like(ids);
  const Tensor tokens = sample(logits, 1, 1, ids, positions).tokens;
  const auto fraction_equal = [&](const SampledTokens& other) {
    return other.tokens.eq(tokens).to(at::kDouble).mean().item<double>();
  };
  const int64_t high = int64_t{1} << 32;
  EXPECT_EQ(fraction_equal(sample(logits, 1, 1, ids, positions)), 1);
  EXPECT_LT(fraction_equal(sample(logits, 1, 2, ids, positions)), 0.1);
  EXPECT_LT(fraction_equal(sample(logits, 1, 1 + (uint64_t{1} << 32), ids, positions)), 0.1);
  EXPECT_LT(fraction_equal(sample(logits, 1, 1, ids + rows, positions)), 0.1);
  EXPECT_LT(fraction_equal(sample(logits, 1, 1, ids + high, positions)), 0.1);
  EXPECT_LT(fraction_equal(sample(logits, 1, 1, ids, positions + 1)), 0.1);
}

TEST(Sampler, TemperatureZeroTakesTheLargestLogitAndReportsItsLogProbAtOne) {
  const Tensor logits = at::tensor({0.0f, 2.0f, 1.0f, 2.0f, 3.0f, -1.0f, 0.5f, 3.5f}).view({2, 4});
  const Tensor ids = int64_tensor({0, 1});
  const SampledTokens drawn = sample(logits, 0, 1, ids, ids);
  EXPECT_EQ(to_vector(drawn.tokens), (std::vector<double>{1, 3}));  // the first of equal ones
  // log softmax by hand: 2 - log(1 + e^2 + e + e^2) and 3.5 - log(e^3 + 1/e + sqrt(e) + e^3.5)
  EXPECT_NEAR(drawn.logp[0].item<double>(), 2 - std::log(1 + 2 * std::exp(2.0) + std::exp(1.0)), 1e-6);
  EXPECT_NEAR(drawn.logp[1].item<double>(),
              3.5 - std::log(std::exp(3.0) + std::exp(-1.0) + std::exp(0.5) + std::exp(3.5)), 1e-6);
}

TEST(Sampler, HandlesExtremeLogitsAndAVocabularyOfOne) {
  const Tensor ids = int64_tensor({0, 1, 2});
  const float never = -std::numeric_limits<float>::infinity();
  const Tensor logits = at::tensor({1e4f, -1e4f, -1e4f, -1e4f, 1e4f, -1e4f, never, never, 0.0f}).view({3, 3});
  for (const double temperature : {0.0, 0.5, 1.0}) {
    const SampledTokens drawn = sample(logits, temperature, 1, ids, ids);
    EXPECT_EQ(to_vector(drawn.tokens), (std::vector<double>{0, 1, 2}));
    EXPECT_EQ(to_vector(drawn.logp), (std::vector<double>{0, 0, 0}));
    const SampledTokens only = sample(at::full({3, 1}, 7.0), temperature, 1, ids, ids);
    EXPECT_EQ(to_vector(only.tokens), (std::vector<double>{0, 0, 0}));
    EXPECT_EQ(to_vector(only.logp), (std::vector<double>{0, 0, 0}));
  }
}

/// Reference nucleus in float64: adds the most likely tokens until they reach top_p.
std::vector<bool> reference_nucleus(const std::vector<double>& probabilities, double top_p) {
  std::vector<bool> inside(probabilities.size(), false);
  for (double sum = 0; sum < top_p;) {
    size_t best = probabilities.size();
    for (size_t i = 0; i < probabilities.size(); ++i)
      if (!inside[i] && (best == probabilities.size() || probabilities[i] > probabilities[best])) best = i;
    if (best == probabilities.size()) break;
    inside[best] = true;
    sum += probabilities[best];
  }
  return inside;
}

TEST(TopP, KeepsTheSmallestSetOfMostLikelyTokens) {
  const Tensor logits = random_normal({60, 37}, 4) * 3;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    for (const double top_p : {1e-9, 0.1, 0.5, 0.9, 0.999}) {
      const Tensor kept = filter_logits(logits, temperature, {.top_p = top_p});
      for (int64_t row = 0; row < logits.size(0); ++row) {
        const std::vector<bool> inside = reference_nucleus(softmax(to_vector(logits[row]), temperature), top_p);
        for (int64_t token = 0; token < logits.size(1); ++token) {
          const float value = kept[row][token].item<float>();
          if (inside[token])
            EXPECT_EQ(value, logits[row][token].item<float>());
          else
            EXPECT_TRUE(std::isinf(value) && value < 0) << row << " " << token << " " << top_p;
        }
      }
    }
  }
}

TEST(TopP, KeepsTheNucleusOfALargeVocabularyWithTies) {
  // Rounded logits, most of which many tokens share, so that the set ends among tokens of one logit.
  const Tensor logits = at::cat({random_normal({3, 20'000}, 5) * 3, at::zeros({1, 20'000})}).mul(4).round().div(4);
  for (const double temperature : {0.5, 1.0, 2.0})
    for (const double top_p : {0.1, 0.9, 0.999}) {
      const Tensor kept = filter_logits(logits, temperature, {.top_p = top_p}).isfinite();
      const Tensor p = at::softmax(logits.to(at::kDouble) / temperature, 1);
      const auto [sorted, order] = at::sort(p, /*stable=*/true, 1, /*descending=*/true);
      const Tensor before = sorted.cumsum(1) - sorted;  // the probability of more likely tokens
      const Tensor wrong = kept.gather(1, order).ne(before < top_p).logical_and((before - top_p).abs() > 1e-9);
      EXPECT_FALSE(wrong.any().item<bool>()) << temperature << " " << top_p;
    }
}

TEST(TopP, LeavesRowsWithNaNAsTheyAre) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor kept = filter_logits(at::tensor({1.0f, nan, 0.0f, 3.0f}).unsqueeze(0), 1, {.top_p = 0.5});
  EXPECT_EQ(to_vector(kept.isnan()[0]), (std::vector<double>{0, 1, 0, 0}));
  EXPECT_EQ(kept[0][2].item<float>(), 0);
}

TEST(TopP, KeepsLowerIdsFirstAndReturnsTheInputIfNothingIsCut) {
  const Tensor equal = at::zeros({1, 4});
  EXPECT_EQ(to_vector(filter_logits(equal, 1, {.top_p = 0.5}).isinf()[0]), (std::vector<double>{0, 0, 1, 1}));
  EXPECT_TRUE(filter_logits(equal, 1, {.top_p = 1}).equal(equal));
  EXPECT_TRUE(filter_logits(equal, 0, {.top_p = 0.5}).equal(equal));
}

TEST(MinP, ExcludesTokensBelowAFractionOfTheHighestProbability) {
  const Tensor logits = random_normal({60, 37}, 6) * 3;
  for (const double temperature : {0.5, 1.0, 2.0})
    for (const double min_p : {1e-6, 0.05, 0.5, 1.0}) {
      const Tensor kept = filter_logits(logits, temperature, {.min_p = min_p});
      for (int64_t row = 0; row < logits.size(0); ++row) {
        const std::vector<double> p = softmax(to_vector(logits[row]), temperature);
        const double most = *std::max_element(p.begin(), p.end());
        for (int64_t token = 0; token < logits.size(1); ++token) {
          if (std::abs(p[token] / most / min_p - 1) < 1e-6 && p[token] < most) continue;  // rounding decides
          const bool stays = p[token] >= min_p * most;
          EXPECT_EQ(kept[row][token].item<float>(), stays ? logits[row][token].item<float>() : -INFINITY);
        }
      }
    }
}

TEST(SamplingFilter, AppliesTopKTopPAndMinPInTheOrderOfTransformers) {
  // top_k renormalises 0.4, 0.3, 0.2 and 0.1 to 4/9, 3/9 and 2/9, of which two reach 0.7; without it three would be
  // needed. The second of these two has 3/4 of the first one's probability.
  const Tensor logits = at::tensor({0.4, 0.3, 0.2, 0.1}, at::kFloat).log().unsqueeze(0);
  const auto left_out = [&](const SamplingFilter& by) { return to_vector(filter_logits(logits, 1, by).isinf()[0]); };
  EXPECT_EQ(left_out({.top_k = 3, .top_p = 0.75}), (std::vector<double>{0, 0, 1, 1}));
  EXPECT_EQ(left_out({.top_p = 0.75}), (std::vector<double>{0, 0, 0, 1}));
  EXPECT_EQ(left_out({.top_k = 3, .top_p = 0.75, .min_p = 0.7}), (std::vector<double>{0, 0, 1, 1}));
  EXPECT_EQ(left_out({.top_k = 3, .top_p = 0.75, .min_p = 0.8}), (std::vector<double>{0, 1, 1, 1}));
  EXPECT_EQ(left_out({.top_k = 2}), (std::vector<double>{0, 0, 1, 1}));
}

TEST(TopP, RenormalisesTheKeptProbabilities) {
  const int64_t draws = 200000;
  const Tensor ids = at::arange(draws, at::kLong), rows = rows_of(kLogits, draws);
  // The three most likely tokens 3, 0 and 6 have 0.422 + 0.256 + 0.155 of the probability.
  const SampledTokens drawn = sample(filter_logits(rows, 1, {.top_p = 0.7}), 1, 11, ids, at::zeros_like(ids));
  const std::vector<double> want = softmax({2.0, 1.5, 1.0}, 1);
  const double count = static_cast<double>(draws);
  for (const auto& [token, p] : {std::pair(3, want[0]), std::pair(0, want[1]), std::pair(6, want[2])}) {
    const Tensor is_token = drawn.tokens.eq(token);
    EXPECT_NEAR(is_token.sum().item<double>() / count, p, 4 * std::sqrt(p * (1 - p) / count));
    EXPECT_NEAR(drawn.logp.masked_select(is_token)[0].item<double>(), std::log(p), 1e-6);
  }
}

}  // namespace
}  // namespace keel
