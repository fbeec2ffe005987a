#include "keel/objective/certificate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/goldens.h"

namespace keel {
namespace {

/// The reward range as in the theorem, where only the maximum |R| is known.
RewardRange within(double xi) { return {.lowest = -xi, .highest = xi}; }

TEST(Certificate, MatchesTheGoldenEstimates) {
  int checked = 0;
  const Json goldens = golden("improvement.json");
  for (const Json& row : goldens.at("estimates")) {
    SCOPED_TRACE(checked);
    const std::vector<double> logp = numbers(row.at("logp")), mu = numbers(row.at("behavior_logp")),
                              tv = numbers(row.at("tv")), rewards = numbers(row.at("rewards"));
    const auto lengths = row.at("lengths").get<std::vector<int64_t>>();
    const ImprovementCertificate got = improvement_certificate(
        {logp, mu, tv, rewards, lengths, {}, within(row.at("xi")), row.at("horizon"), "full_tv"});
    const auto expect = [&](double value, const char* name) {
      const double want = row.at("expected").at(name);
      EXPECT_NEAR(value, want, 1e-9 * std::abs(want)) << name;
    };
    expect(got.gain, "gain");
    expect(got.max_penalty, "max_penalty");
    expect(got.average_penalty, "average_penalty");
    expect(got.certificate, "certificate");
    EXPECT_EQ(got.divergence, "full_tv");
    ++checked;
  }
  EXPECT_EQ(checked, 4);
}

using Word = std::vector<int64_t>;
using Law = std::vector<double>;

/// A problem small enough to enumerate: a next-token distribution for each prefix, and a reward for each response.
struct Tree {
  int64_t vocabulary = 0, horizon = 0;
  std::map<Word, Law> behavior, policy;
  std::map<Word, double> rewards;
  double xi = 0;
  int64_t denominator = 1;  // behavior probabilities are multiples of 1 / this
};

std::vector<Word> words(int64_t vocabulary, int64_t length) {
  std::vector<Word> result{{}};
  for (int64_t t = 0; t < length; ++t) {
    std::vector<Word> longer;
    for (const Word& word : result)
      for (int64_t token = 0; token < vocabulary; ++token) (longer.emplace_back(word)).push_back(token);
    result = longer;
  }
  return result;
}

double total_variation(const Law& a, const Law& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]) / 2;
  return sum;
}

/// Both sides of Theorem 3.1, by enumeration.
struct Exact {
  double behavior_return = 0, policy_return = 0, gain = 0, remainder = 0;
  double improvement() const { return policy_return - behavior_return; }
};

Exact enumerate(const Tree& tree) {
  Exact result;
  for (const auto& [word, reward] : tree.rewards) {
    double mu = 1, pi = 1;
    std::vector<double> ratios;
    for (size_t t = 0; t < word.size(); ++t) {
      const Word prefix(word.begin(), word.begin() + static_cast<ptrdiff_t>(t));
      const double p = tree.policy.at(prefix)[word[t]], m = tree.behavior.at(prefix)[word[t]];
      mu *= m, pi *= p;
      ratios.push_back(p / m);
    }
    double later = 1;  // the product of the ratios after t
    for (size_t t = word.size(); t-- > 0; later *= ratios[t]) {
      result.gain += mu * reward * (ratios[t] - 1);
      result.remainder += mu * reward * (ratios[t] - 1) * (1 - later);
    }
    result.behavior_return += mu * reward;
    result.policy_return += pi * reward;
  }
  return result;
}

/// The certificate of samples in which each response occurs in proportion to its probability, so means are
/// expectations.
ImprovementCertificate certificate_of_the_whole_population(const Tree& tree) {
  std::vector<double> logp, behavior_logp, tv, rewards;
  std::vector<int64_t> lengths;
  for (const auto& [word, reward] : tree.rewards) {
    std::vector<double> word_logp, word_mu, word_tv;
    double copies = 1;
    for (size_t t = 0; t < word.size(); ++t) {
      const Word prefix(word.begin(), word.begin() + static_cast<ptrdiff_t>(t));
      const Law &mu = tree.behavior.at(prefix), &pi = tree.policy.at(prefix);
      word_logp.push_back(std::log(pi[word[t]]));
      word_mu.push_back(std::log(mu[word[t]]));
      word_tv.push_back(total_variation(mu, pi));
      copies *= mu[word[t]] * static_cast<double>(tree.denominator);
    }
    EXPECT_EQ(copies, std::round(copies));
    for (int64_t copy = 0; copy < static_cast<int64_t>(copies); ++copy) {
      logp.insert(logp.end(), word_logp.begin(), word_logp.end());
      behavior_logp.insert(behavior_logp.end(), word_mu.begin(), word_mu.end());
      tv.insert(tv.end(), word_tv.begin(), word_tv.end());
      rewards.push_back(reward);
      lengths.push_back(tree.horizon);
    }
  }
  return improvement_certificate(
      {logp, behavior_logp, tv, rewards, lengths, {}, within(tree.xi), tree.horizon, "full_tv"});
}

Tree golden_tree(const Json& row) {
  Tree tree;
  tree.vocabulary = row.at("vocabulary");
  tree.horizon = row.at("horizon");
  tree.xi = row.at("xi");
  tree.denominator = 16;
  const auto prefixes = row.at("prefixes").get<std::vector<Word>>();
  for (size_t i = 0; i < prefixes.size(); ++i) {
    tree.behavior[prefixes[i]] = numbers(row.at("behavior").at(i));
    tree.policy[prefixes[i]] = numbers(row.at("policy").at(i));
    EXPECT_NEAR(total_variation(tree.behavior[prefixes[i]], tree.policy[prefixes[i]]),
                row.at("expected").at("tv").at(i).get<double>(), 1e-15);
  }
  const auto responses = row.at("responses").get<std::vector<Word>>();
  EXPECT_EQ(responses, words(tree.vocabulary, tree.horizon));
  for (size_t i = 0; i < responses.size(); ++i) tree.rewards[responses[i]] = row.at("rewards").at(i);
  return tree;
}

void expect_theorems(const Exact& exact, const ImprovementCertificate& got) {
  EXPECT_NEAR(exact.improvement(), exact.gain - exact.remainder, 1e-13);  // Theorem 3.1
  EXPECT_NEAR(got.gain, exact.gain, 1e-12);
  EXPECT_GE(exact.improvement(), got.gain - got.max_penalty - 1e-12);  // Theorem 3.2, both forms
  EXPECT_GE(exact.improvement(), got.gain - got.average_penalty - 1e-12);
  EXPECT_GE(exact.improvement(), got.certificate - 1e-12);
}

TEST(Certificate, OfAFullPopulationMatchesTheGoldenTreesAndBoundsTheImprovement) {
  int checked = 0;
  const Json goldens = golden("improvement.json");
  for (const Json& row : goldens.at("trees")) {
    SCOPED_TRACE(checked);
    const Tree tree = golden_tree(row);
    const Exact exact = enumerate(tree);
    const ImprovementCertificate got = certificate_of_the_whole_population(tree);
    const auto expect = [&](double value, const char* name) {
      EXPECT_NEAR(value, row.at("expected").at(name).get<double>(), 1e-12) << name;
    };
    expect(exact.behavior_return, "J_behavior");
    expect(exact.policy_return, "J_policy");
    expect(exact.remainder, "remainder");
    expect(got.gain, "gain");
    expect(got.max_penalty, "max_penalty");
    expect(got.average_penalty, "average_penalty");
    expect(got.certificate, "certificate");
    expect_theorems(exact, got);
    ++checked;
  }
  EXPECT_EQ(checked, 3);
}

/// Uniform numbers in [0, 1), the same with every standard library.
struct Uniform {
  std::mt19937_64 bits;
  double operator()() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  int64_t below(int64_t n) { return static_cast<int64_t>((*this)() * static_cast<double>(n)); }
};

Law random_behavior(Uniform& uniform, int64_t vocabulary, int64_t denominator) {
  std::vector<int64_t> shares(vocabulary, 1);  // common support: no token has probability 0
  for (int64_t left = denominator - vocabulary; left > 0; --left) ++shares[uniform.below(vocabulary)];
  Law law;
  for (const int64_t share : shares) law.push_back(static_cast<double>(share) / static_cast<double>(denominator));
  return law;
}

/// Changes the distribution in a random direction by `size`.
Law moved(const Law& law, Uniform& uniform, double size) {
  Law result;
  double sum = 0;
  for (const double p : law) sum += result.emplace_back(p * std::exp(size * (2 * uniform() - 1)));
  for (double& p : result) p /= sum;
  return result;
}

Tree random_tree(Uniform& uniform) {
  Tree tree;
  tree.vocabulary = 2 + uniform.below(2);
  tree.horizon = 1 + uniform.below(4);
  tree.denominator = 8;
  const double size = std::pow(10, -2 + 2.5 * uniform());
  for (int64_t length = 0; length < tree.horizon; ++length) {
    for (const Word& prefix : words(tree.vocabulary, length)) {
      tree.behavior[prefix] = random_behavior(uniform, tree.vocabulary, tree.denominator);
      tree.policy[prefix] = moved(tree.behavior[prefix], uniform, size);
    }
  }
  for (const Word& word : words(tree.vocabulary, tree.horizon)) {
    const double reward = 2 * uniform() - 1;
    tree.rewards[word] = reward;
    tree.xi = std::max(tree.xi, std::abs(reward));
  }
  return tree;
}

TEST(Certificate, IsAtMostTheImprovementInFiveHundredRandomProblems) {
  Uniform uniform{std::mt19937_64(20260204)};
  int improved = 0, certified = 0, by_max = 0, by_average = 0;
  double tightest = 0;
  for (int problem = 0; problem < 500; ++problem) {
    SCOPED_TRACE(problem);
    const Tree tree = random_tree(uniform);
    const Exact exact = enumerate(tree);
    const ImprovementCertificate got = certificate_of_the_whole_population(tree);
    expect_theorems(exact, got);
    improved += exact.improvement() > 0;
    certified += got.certificate > 0;
    (got.max_penalty < got.average_penalty ? by_max : by_average) += 1;
    if (tree.horizon > 1) tightest = std::max(tightest, std::abs(exact.remainder) / got.max_penalty);
  }
  // Tests the bounds only where they are neither trivial nor loose.
  EXPECT_GT(improved, 150);
  EXPECT_GT(certified, 50);
  EXPECT_GT(by_max, 100);
  EXPECT_GT(by_average, 20);
  EXPECT_GT(tightest, 0.3);
}

TEST(Certificate, IsZeroWithoutSamplesAndCountsEmptyResponses) {
  const ImprovementCertificate nothing = improvement_certificate({{}, {}, {}, {}, {}, {}, within(1), 5, "topk_tv"});
  EXPECT_EQ(nothing.gain, 0);
  EXPECT_EQ(nothing.certificate, 0);
  EXPECT_EQ(nothing.divergence, "topk_tv");

  const std::vector<double> logp{std::log(0.5)}, mu{std::log(0.25)}, tv{0.25}, rewards{1, -1};
  const std::vector<int64_t> lengths{1, 0};
  const ImprovementCertificate half =
      improvement_certificate({logp, mu, tv, rewards, lengths, {}, within(1), 2, "full_tv"});
  EXPECT_NEAR(half.gain, 0.5, 1e-15);             // (1 (2 - 1) + 0) / 2
  EXPECT_NEAR(half.max_penalty, 0.25, 1e-15);     // 2 * 2 * 1 / 16
  EXPECT_NEAR(half.average_penalty, 0.5, 1e-15);  // 4 (0.25 + 0) / 2
  EXPECT_NEAR(half.certificate, 0.25, 1e-15);
}

TEST(Certificate, ClampsARatioAtExpOfTwenty) {
  const std::vector<double> logp{-1, -31}, mu{-31, -1}, tv{0.1, 0.1}, rewards{1, 1};
  const std::vector<int64_t> lengths{1, 1};
  const double gain = improvement_certificate({logp, mu, tv, rewards, lengths, {}, within(1), 1, "binary_tv"}).gain;
  EXPECT_NEAR(gain / ((485165195.40979028 - 1 - 1) / 2), 1, 1e-12);  // e^20 - 1, and e^-20 - 1 is -1 here
}

TEST(Certificate, RejectsSamplesThatViolateTheAssumptions) {
  const std::vector<double> logp{-1, -1}, tv{0.1, 0.2}, rewards{0.5}, none;
  const std::vector<double> negative_tv{0.1, -0.2}, nan_tv{0.1, std::numeric_limits<double>::quiet_NaN()};
  const std::vector<int64_t> lengths{2};
  const auto message = [](const CertificateSamples& samples) {
    return error_of(70, [&] { improvement_certificate(samples); });
  };
  EXPECT_THAT(message({logp, logp, tv, rewards, lengths, {}, within(0.4), 2, "full_tv"}),
              HasSubstr("range is -0.4 to 0.4"));
  EXPECT_THAT(message({logp, logp, tv, rewards, lengths, {}, within(1), 1, "full_tv"}), HasSubstr("horizon"));
  EXPECT_THAT(message({logp, logp, tv, rewards, lengths, {}, within(1), 2, "binary_kl"}), HasSubstr("full_tv"));
  EXPECT_THAT(message({logp, logp, negative_tv, rewards, lengths, {}, within(1), 2, "full_tv"}), HasSubstr("-0.2"));
  EXPECT_THAT(message({logp, logp, nan_tv, rewards, lengths, {}, within(1), 2, "full_tv"}), HasSubstr("nan"));
  EXPECT_THAT(message({logp, logp, none, rewards, lengths, {}, within(1), 2, "full_tv"}), HasSubstr("0 divergences"));
  EXPECT_THAT(message({logp, logp, tv, none, lengths, {}, within(1), 2, "full_tv"}), HasSubstr("0 rewards"));
}

/// Two prompts with two completions and one with three, one token each, with mu = 1/2 and the given pi.
struct SmallBatch {
  std::vector<double> behavior_logp = std::vector<double>(7, std::log(0.5)), tv, rewards{1, 0, 1, 1, 0, 0, 1}, logp;
  std::vector<int64_t> lengths = std::vector<int64_t>(7, 1), groups{4, 4, 9, 9, 2, 2, 2};

  explicit SmallBatch(const std::vector<double>& pi) {
    for (const double p : pi) {
      logp.push_back(std::log(p));
      tv.push_back(std::abs(p - 0.5));
    }
  }

  ImprovementCertificate certificate(const char* divergence, int64_t horizon = 1, double logp_error = 0) const {
    return improvement_certificate(
        {logp, behavior_logp, tv, rewards, lengths, groups, RewardRange{0, 1}, horizon, divergence, logp_error});
  }
};

TEST(Certificate, UsesALeaveOneOutBaselineAndAStandardErrorOverGroups) {
  // r - 1 = 0.4, -0.2 | 0.6, 0.2 | 0.2, 0, 0.4. Rewards less the mean of the others: 1, -1 | 0, 0 | -0.5, -0.5, 1.
  const SmallBatch batch({0.7, 0.4, 0.8, 0.6, 0.6, 0.5, 0.7});
  const ImprovementCertificate got = batch.certificate("full_tv");
  EXPECT_NEAR(got.gain, (0.4 + 0.2 - 0.1 + 0.4) / 7, 1e-15);
  EXPECT_EQ(got.max_penalty, 0);  // of a single token
  EXPECT_NEAR(got.certificate, 0.9 / 7, 1e-15);
  // Sums of deviations from the mean, 0.9/7: 0.6 - 1.8/7 = 2.4/7 | -1.8/7 | 0.3 - 2.7/7 = -0.6/7.
  const double squares = (2.4 * 2.4 + 1.8 * 1.8 + 0.6 * 0.6) / 49;
  EXPECT_NEAR(got.standard_error, std::sqrt(1.5 * squares) / 7, 1e-15);
  EXPECT_FALSE(got.improved);  // 0.129, and the error is 0.076
}

TEST(Certificate, WithALowerBoundUsesTheUnbiasedDistanceForTheAveragePenalty) {
  const SmallBatch batch({0.7, 0.4, 0.8, 0.6, 0.6, 0.5, 0.7});
  // xi = 1/2. |pi - mu| adds up to 1, |r - 1|/2 to 2/2: mu = 1/2 is where the two are the same.
  EXPECT_NEAR(batch.certificate("binary_tv").average_penalty, 2 * 1.0 / 7, 1e-15);
  SmallBatch rare = batch;
  for (size_t i = 0; i < 7; ++i) rare.behavior_logp[i] = std::log(0.1), rare.tv[i] = std::exp(rare.logp[i]) - 0.1;
  // r - 1 = 6, 3, 7, 5, 5, 4, 6: 36 in all; |pi - mu| adds up to 3.6.
  for (const char* lower : {"binary_tv", "topk_tv"}) {
    const ImprovementCertificate got = rare.certificate(lower);
    EXPECT_NEAR(got.average_penalty, 2 * 18.0 / 7, 1e-12);
    EXPECT_NEAR(got.average_penalty_low, 2 * 3.6 / 7, 1e-12);
  }
  for (const char* exact : {"full_tv", "unnamed"}) {
    const ImprovementCertificate got = rare.certificate(exact);
    EXPECT_NEAR(got.average_penalty, 2 * 3.6 / 7, 1e-12);
    EXPECT_EQ(got.average_penalty_low, got.average_penalty);
  }
  // With a horizon of 100 the max penalty is larger, so the error is that of gain minus the average penalty.
  const ImprovementCertificate averaged = batch.certificate("binary_tv", 100);
  EXPECT_NEAR(averaged.certificate, 0.9 / 7 - 2 / 7.0, 1e-15);
  // 0.4 - 0.4, 0.2 - 0.2 | -0.6, -0.2 | -0.1 - 0.2, 0, 0.4 - 0.4; the mean is -1.1/7.
  const double squares = (2.2 * 2.2 + 3.4 * 3.4 + 1.2 * 1.2) / 49;
  EXPECT_NEAR(averaged.standard_error, std::sqrt(1.5 * squares) / 7, 1e-15);
}

TEST(Certificate, IsInvariantToAConstantShiftOfTheRewards) {
  const SmallBatch batch({0.7, 0.4, 0.8, 0.6, 0.6, 0.5, 0.7});
  std::vector<double> shifted;
  for (const double reward : batch.rewards) shifted.push_back(reward + 1000);
  const auto certificate = [&](std::span<const double> rewards, std::span<const int64_t> groups, double lowest) {
    return improvement_certificate({batch.logp, batch.behavior_logp, batch.tv, rewards, batch.lengths, groups,
                                    RewardRange{lowest, lowest + 1}, 4, "full_tv"});
  };
  const std::vector<int64_t> alone;
  for (const std::span<const int64_t> groups : {std::span(batch.groups), std::span(alone)}) {
    const ImprovementCertificate got = certificate(batch.rewards, groups, 0),
                                 moved = certificate(shifted, groups, 1000);
    EXPECT_NEAR(got.certificate, moved.certificate, 1e-12);
    EXPECT_NEAR(got.standard_error, moved.standard_error, 1e-12);
  }
}

TEST(Certificate, IsNotImprovedWithFewerThanThreeGroups) {
  SmallBatch batch({0.7, 0.4, 0.8, 0.6, 0.6, 0.5, 0.7});
  batch.groups = std::vector<int64_t>(7, 3);
  EXPECT_TRUE(std::isinf(batch.certificate("full_tv").standard_error));
  EXPECT_FALSE(batch.certificate("full_tv").improved);
  // All groups have the same gain, so the error is 0, but two groups are too few.
  SmallBatch equal({0.6, 0.5, 0.6, 0.5, 0.6, 0.5, 0.5});
  equal.rewards = {1, 0, 1, 0, 1, 0, 0};
  equal.groups = {1, 1, 2, 2, 2, 2, 2};
  EXPECT_FALSE(equal.certificate("full_tv").improved);
  equal.groups = {1, 1, 2, 2, 3, 3, 4};
  EXPECT_TRUE(equal.certificate("full_tv").improved);
}

TEST(Certificate, IsNotImprovedByRoundingErrorsOfLogProbs) {
  // Rewarded tokens rose by 1e-6 and others are unchanged: this is within the rounding error of float32.
  SmallBatch batch({0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
  for (size_t i = 0; i < 7; ++i) batch.logp[i] += 1e-6 * batch.rewards[i];
  EXPECT_GT(batch.certificate("full_tv").certificate, 0);
  EXPECT_FALSE(batch.certificate("full_tv", 1, kFloatLogProbError).improved);
}

/// Samples a response of the tree from mu.
Word draw(const Tree& tree, Uniform& uniform) {
  Word word;
  while (std::ssize(word) < tree.horizon) {
    const Law& law = tree.behavior.at(word);
    double left = uniform();
    int64_t token = 0;
    while (token + 1 < tree.vocabulary && left >= law[token]) left -= law[token++];
    word.push_back(token);
  }
  return word;
}

/// The certificate of sampled responses; all prompts are the root of the tree.
ImprovementCertificate sampled_certificate(const Tree& tree, Uniform& uniform, int64_t prompts, int64_t responses,
                                           const std::string& divergence, double noise = 0) {
  std::vector<double> logp, behavior_logp, tv, rewards;
  std::vector<int64_t> lengths, groups;
  for (int64_t i = 0; i < prompts * responses; ++i) {
    const Word word = draw(tree, uniform);
    for (size_t t = 0; t < word.size(); ++t) {
      const Word prefix(word.begin(), word.begin() + static_cast<ptrdiff_t>(t));
      const Law &mu = tree.behavior.at(prefix), &pi = tree.policy.at(prefix);
      logp.push_back(std::log(pi[word[t]]) + noise * (2 * uniform() - 1));
      behavior_logp.push_back(std::log(mu[word[t]]));
      tv.push_back(divergence == "full_tv" ? total_variation(mu, pi) : std::abs(pi[word[t]] - mu[word[t]]));
    }
    rewards.push_back(tree.rewards.at(word));
    lengths.push_back(tree.horizon);
    groups.push_back(i / responses);
  }
  return improvement_certificate({logp, behavior_logp, tv, rewards, lengths, groups, within(tree.xi), tree.horizon,
                                  divergence, kFloatLogProbError});
}

TEST(Certificate, IsUnbiasedAndItsStandardErrorHasTheRightCoverage) {
  const Json goldens = golden("improvement.json");
  for (const Json& row : goldens.at("trees")) {
    const Tree tree = golden_tree(row);
    const Exact exact = enumerate(tree);
    constexpr int kBatches = 2000;
    for (const char* divergence : {"full_tv", "binary_tv"}) {
      SCOPED_TRACE(divergence);
      Uniform uniform{std::mt19937_64(11)};
      double gain = 0, gain_squares = 0, average = 0, average_low = 0, variance = 0;
      int covered = 0, gain_covered = 0;
      for (int batch = 0; batch < kBatches; ++batch) {
        const ImprovementCertificate got = sampled_certificate(tree, uniform, 12, 4, divergence);
        gain += got.gain / kBatches;
        gain_squares += got.gain * got.gain / kBatches;
        average += got.average_penalty / kBatches;
        average_low += got.average_penalty_low / kBatches;
        if (got.max_penalty < got.average_penalty) variance += got.standard_error * got.standard_error / kBatches;
        covered += got.certificate - 2 * got.standard_error <= exact.improvement();
        gain_covered += got.gain - 2 * got.standard_error <= exact.gain;
      }
      const double spread = std::sqrt(gain_squares - gain * gain), want = row.at("expected").at("average_penalty");
      EXPECT_NEAR(gain, exact.gain, 4 * spread / std::sqrt(kBatches));  // the baseline adds no bias
      EXPECT_NEAR(average / want, 1, 0.01);                             // and |r - 1|/2 has none
      if (std::string(divergence) == "binary_tv" && tree.vocabulary > 2) {
        EXPECT_LT(average_low, 0.95 * want);  // |pi - mu| would underestimate it
      }
      if (variance > 0) {
        EXPECT_NEAR(std::sqrt(variance) / spread, 1, 0.05);
      }
      EXPECT_GE(covered, 0.97 * kBatches);
      // Student's t distribution with 11 degrees of freedom gives 0.965; skewed gains change it by up to 0.02.
      EXPECT_NEAR(gain_covered, 0.97 * kBatches, 0.02 * kBatches);
    }
  }
}

TEST(Certificate, ReportsAnImprovementOnlyIfThereIsOne) {
  const Json goldens = golden("improvement.json");
  int seen = 0;
  for (const Json& row : goldens.at("trees")) {
    Tree same = golden_tree(row), worse = same, less = same;
    same.policy = same.behavior;
    std::swap(worse.policy, worse.behavior);
    for (auto& [prefix, law] : less.policy)  // a quarter of the change: the penalty is quadratic in it
      for (size_t i = 0; i < law.size(); ++i) law[i] = 0.75 * less.behavior.at(prefix)[i] + 0.25 * law[i];
    Uniform uniform{std::mt19937_64(12)};
    int above = 0, improved = 0, worsened = 0;
    for (int batch = 0; batch < 1000; ++batch) {
      // As in a run with learning rate 0: log-probs differ only by rounding.
      const ImprovementCertificate got = sampled_certificate(same, uniform, 16, 8, "binary_tv", 4e-6);
      above += got.certificate > 0;
      improved += got.improved;
      if (enumerate(worse).improvement() < 0)
        worsened += sampled_certificate(worse, uniform, 16, 8, "full_tv").improved;
    }
    EXPECT_GT(above, 300);  // the bound alone is noise
    EXPECT_EQ(improved, 0);
    EXPECT_LE(worsened, 30);
    EXPECT_GT(enumerate(less).improvement(), 0);
    seen += sampled_certificate(less, uniform, 4000, 8, "full_tv").improved;
  }
  EXPECT_GE(seen, 1);
}

}  // namespace
}  // namespace keel
