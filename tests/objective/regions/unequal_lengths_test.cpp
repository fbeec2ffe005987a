#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "keel/objective/methods.h"
#include "keel/objective/regions/region_parameters.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

/// The peak tensor memory since construction, above the initial value.
class TensorMemory {
 public:
  int64_t peak() const { return counter_->peak; }

 private:
  struct Counter : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
      peak = std::max(peak, held += bytes);  // negative: bytes that are freed
    }
    bool memoryProfilingEnabled() const override { return true; }
    int64_t held = 0, peak = 0;
  };

  std::shared_ptr<Counter> counter_ = std::make_shared<Counter>();
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, counter_};
};

constexpr int64_t kLong = 20000;

/// One long sequence among as many sequences of one token; each sequence is a group.
LossInputs unequal_tokens() {
  const Tensor mu = -random_normal({2 * kLong}, 1).abs() - 0.5;
  LossInputs p{(mu + 0.2 * random_normal({2 * kLong}, 2)).clamp_max(0), mu, {}};
  p.lengths.assign(kLong + 1, 1);
  p.lengths[kLong / 2] = kLong;
  for (int64_t s = 0; s <= kLong; ++s) p.groups.push_back(s);
  p.advantages = at::repeat_interleave(random_normal({kLong + 1}, 3), int64_tensor(p.lengths));
  p.old_logp = (mu + 0.1 * random_normal({2 * kLong}, 4)).clamp_max(0);
  p.mask = random_normal({2 * kLong}, 5) < 1.5;
  return p;
}

/// The sequence that starts at this token.
LossInputs sequence_of(const LossInputs& p, int64_t begin, int64_t length) {
  const auto rows = [&](const Tensor& x) { return x.narrow(0, begin, length); };
  return {.logp = rows(p.logp),
          .behavior_logp = rows(p.behavior_logp),
          .advantages = rows(p.advantages),
          .mask = rows(p.mask),
          .lengths = {length},
          .old_logp = rows(p.old_logp)};
}

/// All regions that depend on more than one token.
std::vector<std::pair<std::string, TrustRegion>> wide_regions() {
  std::vector<std::pair<std::string, TrustRegion>> result;
  for (const Method& row : methods())
    if (requirements(row.region).scope != Scope::kToken) result.emplace_back(row.name, row.region);
  result.emplace_back("tis of sequences", Tis{.level = Level::kSequence});
  result.emplace_back("mis of sequences", Mis{.level = Level::kSequence});
  result.emplace_back("topr of products", Topr{.length_normalized = Switch::kOff});
  result.emplace_back("cppo with a quantile", Cppo{.quantile = 0.9, .delta_b_max = 0.1});
  result.emplace_back("tvpo of a batch", Tvpo{.scope = AverageOver::kBatch});
  return result;
}

bool is_judged_alone(const TrustRegion& region) {
  const Tvpo* tvpo = std::get_if<Tvpo>(&region);
  return !std::holds_alternative<M2po>(region) && (tvpo == nullptr || tvpo->scope == AverageOver::kGroup);
}

TEST(UnequalLengths, NeedMemoryOnlyForTheirTokens) {
  const LossInputs policy = unequal_tokens();
  for (const auto& [name, region] : wide_regions()) {
    const TensorMemory memory;
    token_coefficients(region, policy);
    EXPECT_GT(memory.peak(), 2 * kLong) << name;  // the counter works
    EXPECT_LT(memory.peak(), 2 * kLong * 200) << name;
  }
}

TEST(UnequalLengths, DoNotChangeTheResultOfASequence) {
  const LossInputs policy = unequal_tokens();
  int regions = 0;
  for (const auto& [name, region] : wide_regions()) {
    if (!is_judged_alone(region)) continue;
    ++regions;
    const TokenDecision all = token_coefficients(region, policy);
    int64_t begin = 0;
    for (size_t s = 0; s < policy.lengths.size(); begin += policy.lengths[s++]) {
      if (s != kLong / 2 && s % 1000 != 7) continue;
      const auto rows = [&](const Tensor& x) { return x.narrow(0, begin, policy.lengths[s]); };
      const TokenDecision alone = token_coefficients(region, sequence_of(policy, begin, policy.lengths[s]));
      EXPECT_TRUE(at::equal(alone.keep, rows(all.keep))) << name << " " << s;
      EXPECT_TRUE(at::allclose(alone.coefficient, rows(all.coefficient), 1e-6, 1e-12)) << name << " " << s;
      EXPECT_TRUE(at::allclose(alone.divergence, rows(all.divergence), 1e-6, 1e-7)) << name << " " << s;
      EXPECT_TRUE(at::allclose(alone.threshold, rows(all.threshold), 1e-6, 1e-7)) << name << " " << s;
    }
  }
  EXPECT_EQ(regions, 13);
}

}  // namespace
}  // namespace keel
