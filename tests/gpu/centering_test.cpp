// Score centering on a GPU equals the CPU's.

#include "keel/objective/centering.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "keel/core/tensor/device.h"
#include "keel/objective/methods.h"
#include "keel/ops/next_token_distribution.h"
#include "keel/ops/sampler.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

/// The gradient with score centering of rows that a device has, in the exact form or over listed tokens.
struct CenteredGradient {
  Tensor pi, mu, targets, coefficient, advantages;
  TokenWeights weights;
  Tensor ids = {}, masses = {}, others = {}, totals = {};

  Tensor on(at::Device device, at::ScalarType type) const {
    const auto moved = [&](const Tensor& x) { return x.defined() ? x.to(device) : x; };
    const NextTokenDistribution behavior(mu.to(device), 0.8);
    ScoreCentering centering{.advantages = moved(advantages), .weights = weights};
    if (ids.defined())
      centering.ids = moved(ids), centering.masses = moved(masses), centering.others = moved(others),
      centering.totals = moved(totals);
    else
      centering.behavior = &behavior;
    return NextTokenDistribution(pi.clone().to(device), 0.8)
        .into_gradient(moved(targets), moved(coefficient), Tensor(), type, centering)
        .cpu()
        .to(at::kFloat);
  }
};

TEST(Centering, HasTheCpusGradients) {
  const at::Device cuda = open_device("cuda");
  const int64_t rows = 65;
  for (const int64_t vocab : {1, 2, 26, 255, 257, 49152}) {
    CenteredGradient exact{.pi = random_normal({rows, vocab}, 1) * 3,
                           .mu = random_normal({rows, vocab}, 2) * 0.3,
                           .targets = at::arange(rows, at::kLong) * 7 % vocab,
                           .coefficient = random_normal({rows}, 3),
                           .advantages = random_normal({rows}, 4),
                           .weights = {}};
    exact.mu += exact.pi;
    const auto expect_equal = [&](const CenteredGradient& gradient, const std::string& what) {
      const Tensor want = gradient.on(at::kCPU, at::kFloat);
      for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
        EXPECT_LT(relative_difference(gradient.on(cuda, type), want), type == at::kFloat ? 1e-5 : 4e-3)
            << what << ", vocabulary " << vocab << ", " << c10::toString(type);
    };
    for (const char* method :
         {"pg", "pg_tis", "cispo", "grpo", "aspo", "dppo_tv", "dppo_kl", "drpo", "mask_drpo", "spo", "sapo", "dgpo"}) {
      exact.weights = token_weights(find_method(method, "").region).value();
      expect_equal(exact, method);
    }
    CenteredGradient topk = exact;
    const int64_t k = std::min<int64_t>(vocab, 128);
    topk.ids = (at::arange(k, at::kLong) * 5 + topk.targets.unsqueeze(1)) % vocab;
    if (vocab % 5 == 0) topk.ids = at::arange(k, at::kLong).expand({rows, k});
    topk.ids = topk.ids.clone();
    topk.ids.select(1, k - 1).slice(0, 0, 9).fill_(-1);  // padding
    topk.masses = random_normal({rows, k}, 5).abs() * 0.01;
    topk.others = random_normal({rows}, 6).abs(), topk.totals = random_normal({rows}, 7).abs();
    expect_equal(topk, "top-K");
  }
}

TEST(Centering, GetsTheSamplers128MostLikelyTokens) {
  const at::Device cuda = open_device("cuda");
  for (const int64_t vocab : {26, 1000, 49152, 151936}) {
    for (const double scale : {0.01, 3.0}) {
      const Tensor logits = random_normal({64, vocab}, 1) * scale, keys = at::arange(64, at::kLong);
      const int64_t k = std::min(vocab, kCenteringTopK);
      const SampledTokens drawn = sample(logits.to(cuda), 1, 3, keys.to(cuda), keys.to(cuda), kCenteringTopK);
      ASSERT_EQ(drawn.topk_ids.size(1), k);
      const Tensor want = std::get<0>(logits.topk(k, 1)), got = logits.gather(1, drawn.topk_ids.cpu());
      EXPECT_TRUE(got.equal(want)) << vocab << ", " << scale;
      EXPECT_LT(largest_difference(drawn.topk_logp.cpu(),
                                   at::log_softmax(logits.to(at::kDouble), 1).gather(1, drawn.topk_ids.cpu())),
                1e-5);
    }
  }
}

}  // namespace
}  // namespace keel
