#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "keel/objective/methods.h"
#include "keel/objective/regions/region_parameters.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

/// Three sequences; the last token of the second is masked. Beyond +-20 are
///   log pi - log mu    -49   0  29 |   15    9 | -30   of three tokens; on average of the last sequence;
///                                                      in the sum, -20, 24 and -30, of the last two
///   log pi - log old   -49  39  29 |    1  0.5 | -29   of four tokens; on average of the last sequence
///   log old - log mu     0 -39   0 |   14  8.5 |  -1   of one token; in the sum, -39, 22.5 and -1, of the first two
LossInputs far_tokens(at::ScalarType type) {
  const auto tensor = [&](const std::vector<double>& x) { return at::tensor(x, at::kDouble).to(type); };
  LossInputs p{tensor({-50, -1, -1, -1, -1, -100, -31}), tensor({-1, -1, -30, -16, -10, -1, -1}),
               tensor({1, 1, 1, -1, -1, -1, 1})};
  p.old_logp = tensor({-1, -40, -30, -2, -1.5, -60, -2});
  p.mask = tensor({1, 1, 1, 1, 1, 0, 1}).to(at::kBool);
  p.lengths = {3, 3, 1};
  p.groups = {0, 0, 1};
  p.topk_behavior_logp = p.topk_logp = at::full({7, 2}, -2, p.logp.options());
  p.sampled_in_topk = at::zeros({7}, at::kBool);
  p.divergence = at::full({7}, 0.1, p.logp.options());
  return p;
}

int64_t clamps(const TrustRegion& region) {
  const int64_t wide = token_coefficients(region, far_tokens(at::kDouble)).clamped.item<int64_t>();
  EXPECT_EQ(token_coefficients(region, far_tokens(at::kFloat)).clamped.item<int64_t>(), wide);
  return wide;
}

TEST(EveryMethod, CountsItsClamps) {
  // By default r = pi/mu of each token.
  std::map<std::string, int64_t> want{{"pg", 0}, {"dro", 0}};
  for (const char* both : {"minirl", "minirl_tis"}) want[both] = 3 + 4;                        // pi/mu, pi/old
  for (const char* corrected : {"tis", "mis", "icepop", "openrlhf"}) want[corrected] = 4 + 1;  // pi/old, old/mu
  for (const char* sequence_level : {"gspo", "gmpo", "topr"}) want[sequence_level] = 1;        // a mean of log-ratios
  want["vespo"] = 2;                                                                           // a sum of log-ratios
  int others = 0;
  for (const Method& row : methods()) {
    others += want.contains(row.name) ? 0 : 1;
    EXPECT_EQ(clamps(row.region), want.contains(row.name) ? want.at(row.name) : 3) << row.name;
    want.erase(row.name);
  }
  EXPECT_TRUE(want.empty()) << want.begin()->first;
  EXPECT_GT(others, 30);
}

TEST(ClampCount, DependsOnAnchorLevelAndDivergence) {
  const Json recomputed{{"anchor", "recomputed"}};
  for (const char* method : {"ppo", "cispo", "sapo", "ds_v32", "tvpo"})
    EXPECT_EQ(clamps(make_region(method, recomputed)), 4) << method;
  for (const char* method : {"gspo", "gmpo"}) EXPECT_EQ(clamps(make_region(method, recomputed)), 1) << method;
  EXPECT_EQ(clamps(Dppo{.anchor = Anchor::kRecomputed}), 3);  // the ratio is over mu
  EXPECT_EQ(clamps(Dppo{.divergence = Divergence::kK3}), 3);  // the same log-ratio in both
  EXPECT_EQ(clamps(Dppo{.divergence = Divergence::kK3, .anchor = Anchor::kRecomputed}), 3 + 4);
  EXPECT_EQ(clamps(TrmAvg{.divergence = Divergence::kK3}), 3);
  EXPECT_EQ(clamps(Tis{.level = Level::kSequence}), 4 + 2);
  EXPECT_EQ(clamps(Mis{.level = Level::kSequence}), 4 + 2);
  EXPECT_EQ(clamps(Topr{.length_normalized = Switch::kOff}), 2);
  EXPECT_EQ(clamps(Tvpo{.scope = AverageOver::kBatch}), 3);
}

TEST(ClampCount, IsZeroForTokensWithinTheBounds) {
  LossInputs p = far_tokens(at::kFloat);
  p.logp = p.behavior_logp - 20;  // on the bound the clamp changes nothing
  p.mask = Tensor();
  EXPECT_EQ(token_coefficients(PolicyGradient{}, p).clamped.item<int64_t>(), 0);
  p.logp = p.behavior_logp - 20.001;
  EXPECT_EQ(token_coefficients(PolicyGradient{}, p).clamped.item<int64_t>(), 7);
}

}  // namespace
}  // namespace keel
