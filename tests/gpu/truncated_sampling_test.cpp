// Truncated sampling on a GPU: the tokens that filters keep, and the head restricted to them.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "keel/core/tensor/device.h"
#include "keel/ops/lm_head.h"
#include "keel/ops/sampler.h"
#include "tests/support/kept_rows.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

TEST(TruncatedSampling, KeepsTheCpusTokens) {
  const at::Device cuda = open_device("cuda");
  for (const int64_t vocab : {1, 2, 33, 1023, 4099, 49152}) {
    const Tensor logits = random_normal({40, vocab}, 1) * 3, tied = (logits * 2).round();  // with -0 and 0
    logits[3].fill_(-INFINITY)[0] = 1;
    for (const Tensor& each : {logits, tied})
      for (const double temperature : {0.6, 1.0, 2.0})
        for (const SamplingFilter& filter : {SamplingFilter{.top_p = 1e-9},
                                             {.top_p = 0.3},
                                             {.top_p = 0.9},
                                             {.top_p = 0.9999},
                                             {.top_k = 40, .top_p = 0.95},
                                             {.min_p = 0.02},
                                             {.top_k = 7}}) {
          const Tensor want = filter_logits(each, temperature, filter),
                       got = filter_logits(each.to(cuda), temperature, filter).cpu();
          EXPECT_TRUE(got.equal(want)) << vocab << " " << temperature << " " << filter.top_p
                                       << ", different rows: " << got.ne(want).any(1).sum().item<int64_t>();
        }
  }
  const Tensor equal = filter_logits(at::zeros({1, 4}).to(cuda), 1, {.top_p = 0.5}).cpu();
  EXPECT_EQ(to_vector(equal.isinf()[0]), (std::vector<double>{0, 0, 1, 1}));  // lower ids first
  EXPECT_TRUE(filter_logits(at::full({1, 40}, NAN).to(cuda), 1, {.top_p = 0.5}).isnan().all().item<bool>());
}

/// Sets of one, some, 1,024, 1,025 and all tokens. Logits and gradients are those of the CPU.
TEST(TruncatedSampling, HasTheCpusSetsStatisticsAndGradients) {
  const at::Device cuda = open_device("cuda");
  for (const int64_t vocab : {1, 33, 1025, 4099, 49152}) {
    const Tensor order = ranks_in_rows(random_normal({7, vocab}, 1)),
                 mask = order < int64_tensor({1, 2, 17, 1024, 1025, 2000, vocab}).unsqueeze(1),
                 logits = random_normal({7, vocab}, 2) * 2,
                 excluded = logits.masked_fill(mask.logical_not(), -INFINITY), targets = order.argmin(1);
    const KeptTokens kept = to_kept_tokens(excluded);
    EXPECT_EQ(to_kept_tokens(excluded.to(cuda)), kept) << vocab;
    const Tensor device_logits = logits.to(cuda);
    exclude_other_tokens(device_logits, to_kept_rows(kept, cuda));
    EXPECT_TRUE(device_logits.cpu().equal(excluded)) << vocab;

    const Tensor hidden = random_normal({7, 64}, 3), weight = random_normal({vocab, 64}, 4) * 0.3,
                 c = random_normal({7}, 5);
    const auto run = [&](at::Device device) {
      const BehaviorRows behavior{
          .hidden = (hidden * 1.1).to(device), .weight = weight.to(device), .kept = to_kept_rows(kept, device)};
      TokenStats stats;
      const Tensor gradient = LmHead(weight.to(device), {.chunk_rows = 3})
                                  .backward(
                                      hidden.to(device), targets.to(device), Scope::kBatch,
                                      [&](const TokenStats& all, int64_t, int64_t) {
                                        stats = all;
                                        return HeadCoefficients{c.to(device), at::full_like(all.logp, 0.1)};
                                      },
                                      behavior);
      return std::vector<Tensor>{stats.logp.cpu(),    stats.entropy.cpu(), stats.other_logp.exp().cpu(),
                                 stats.full_tv.cpu(), stats.full_kl.cpu(), gradient.cpu()};
    };
    const std::vector<Tensor> want = run(at::kCPU), got = run(cuda);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_LT(largest_difference(got[i], want[i]), 1e-4) << vocab << " " << i;
      EXPECT_EQ(got[i][0].abs().max().item<float>(), 0) << vocab << " " << i;  // a set of one
    }
  }
}

}  // namespace
}  // namespace keel
