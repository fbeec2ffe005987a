#include "keel/ops/deterministic_linear.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "keel/ops/packed_weight.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

TEST(PackedWeight, EqualsAFloat64Gemm) {
  for (const int64_t inputs : {1, 7, 64, 513, 1500})
    for (const int64_t outputs : {1, 31, 32, 33, 200}) {
      const Tensor weight = random_normal({outputs, inputs}, 1);
      const PackedWeight packed(weight);
      for (const int64_t rows : {1, 2, 3, 12, 13, 251}) {
        const Tensor x = random_normal({rows, inputs}, 2);
        // Terms may cancel, so the error is relative to their magnitudes.
        const Tensor error = (packed(x) - at::linear(x.to(at::kDouble), weight.to(at::kDouble))).abs();
        EXPECT_LT((error / at::linear(x.abs(), weight.abs())).max().item<double>(), 1e-6)
            << rows << " x " << inputs << " x " << outputs;
      }
    }
}

TEST(PackedWeight, BitsOfARowDoNotDependOnOtherRowsOrThreads) {
  const Tensor weight = random_normal({300, 700}, 3), x = random_normal({260, 700}, 4);
  const PackedWeight packed(weight);
  const int threads = at::get_num_threads();
  const Tensor all = packed(x);
  for (const int many : {1, 3}) {
    at::set_num_threads(many);
    for (const int64_t rows : {1, 2, 5, 12, 25, 64, 259})
      for (const int64_t begin : {int64_t{0}, 260 - rows})
        EXPECT_TRUE(packed(x.narrow(0, begin, rows)).equal(all.narrow(0, begin, rows))) << rows << " from " << begin;
  }
  at::set_num_threads(threads);
}

TEST(PackedWeight, OfSeveralWeightsConcatenatesTheirOutputs) {
  const std::vector<Tensor> weights = {random_normal({20, 50}, 7), random_normal({13, 50}, 8),
                                       random_normal({40, 50}, 9)};  // not multiples of the panel width 32
  const Tensor x = random_normal({5, 50}, 10);
  EXPECT_LT((PackedWeight(weights)(x) - at::linear(x, at::cat(weights))).abs().max().item<double>(), 1e-4);
  EXPECT_THROW(PackedWeight({weights[0], random_normal({20, 49}, 1)}), c10::Error);
  EXPECT_THROW(PackedWeight({weights[0], weights[1].to(at::kDouble)}), c10::Error);
}

TEST(PackedWeight, IsACopyOfTheWeight) {
  const Tensor weight = random_normal({40, 20}, 5), x = random_normal({3, 20}, 6);
  const PackedWeight packed(weight);
  const Tensor before = packed(x);
  weight.zero_();
  EXPECT_TRUE(packed(x).equal(before));
}

}  // namespace
}  // namespace keel
