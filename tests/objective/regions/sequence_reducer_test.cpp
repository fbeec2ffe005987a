#include "keel/objective/regions/sequence_reducer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/tensors.h"

namespace keel {
namespace {

using Numbers = std::vector<double>;

Tensor flags(const Numbers& values) { return at::tensor(values, at::kDouble).to(at::kBool); }

TEST(SequenceReducer, ReducesOverTheValidTokensOfEachSequence) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const Tensor tokens = at::tensor({1.0, 7.0, 3.0, 4.0, 5.0, -8.0, 6.0}, at::kDouble).to(type);
    const SequenceReducer sequences({3, 0, 3, 1, 0}, flags({1, 0, 1, 1, 1, 1, 0}));
    EXPECT_EQ(to_vector(sequences.counts()), (Numbers{2, 0, 3, 0, 0}));
    EXPECT_EQ(to_vector(sequences.sum(tokens)), (Numbers{4, 0, 1, 0, 0}));
    EXPECT_EQ(to_vector(sequences.mean(tokens * 3)), (Numbers{6, 0, 1, 0, 0}));
    EXPECT_EQ(to_vector(sequences.max(tokens)), (Numbers{3, -kUnlimited, 5, -kUnlimited, -kUnlimited}));
    EXPECT_EQ(to_vector(sequences.exclusive_cumsum(tokens)), (Numbers{0, 1, 1, 0, 4, 9, 0}));
    EXPECT_EQ(to_vector(sequences.quantile(tokens, 0.25)), (Numbers{1.5, 0, -2, 0, 0}));
    EXPECT_EQ(to_vector(sequences.quantile(tokens, 1)), (Numbers{3, 0, 5, 0, 0}));
    EXPECT_EQ(to_vector(sequences.broadcast(at::tensor({1, 2, 3, 4, 5}))), (Numbers{1, 1, 1, 3, 3, 3, 4}));
    EXPECT_EQ(sequences.sum(tokens).scalar_type(), type);
    EXPECT_EQ(sequences.mean(tokens).scalar_type(), type);
    EXPECT_EQ(sequences.quantile(tokens, 0.5).scalar_type(), type);
  }
}

TEST(SequenceReducer, ReducesEmptySequencesToTheirNeutralValue) {
  const SequenceReducer sequences({0, 0}, flags({}));
  const Tensor nothing = at::empty({0});
  EXPECT_EQ(to_vector(sequences.sum(nothing)), (Numbers{0, 0}));
  EXPECT_EQ(to_vector(sequences.quantile(nothing, 0.5)), (Numbers{0, 0}));
  EXPECT_EQ(sequences.exclusive_cumsum(nothing).numel(), 0);
}

TEST(SequenceReducer, DoesNotSpreadNonFiniteValuesToOtherSequences) {
  const double infinite = kUnlimited, nan = std::nan("");
  const Tensor tokens =
      at::tensor({1.0, infinite, 2.0, 3.0, 4.0, -infinite, infinite, nan, 5.0, 6.0, nan}, at::kDouble);
  const SequenceReducer sequences({3, 2, 2, 1, 3}, flags({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}));
  const Numbers sum = to_vector(sequences.sum(tokens)), before = to_vector(sequences.exclusive_cumsum(tokens));
  EXPECT_EQ(sum[0], infinite);
  EXPECT_EQ(sum[1], 7);
  EXPECT_TRUE(std::isnan(sum[2]) && std::isnan(sum[3]));
  EXPECT_EQ(sum[4], 11);
  EXPECT_EQ((Numbers{before.begin(), before.begin() + 7}), (Numbers{0, 1, infinite, 0, 3, 0, -infinite}));
  EXPECT_EQ((Numbers{before.begin() + 7, before.end()}), (Numbers{0, 0, 5, 11}));
  EXPECT_EQ(to_vector(sequences.max(tokens))[4], 6);
  EXPECT_EQ(to_vector(sequences.quantile(tokens, 0.5))[1], 3.5);
  EXPECT_EQ(to_vector(sequences.quantile(tokens, 0.5))[4], 5.5);
}

/// Sets the number of threads and restores it.
class Threads {
 public:
  explicit Threads(int count) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

TEST(SequenceReducer, GivesTheSameBitsForAnyNeighboursAndThreads) {
  const std::vector<int64_t> lengths{1, 100000, 3, 777, 0, 50000};
  const Tensor tokens = random_normal({std::accumulate(lengths.begin(), lengths.end(), int64_t{0})}, 3);
  const Tensor mask = random_normal({tokens.numel()}, 4) < 1;
  struct Results {
    Tensor sum, mean, before, quantile;
  };
  const auto results = [](const std::vector<int64_t>& of_lengths, const Tensor& x, const Tensor& valid) -> Results {
    const SequenceReducer sequences(of_lengths, valid);
    return {sequences.sum(x), sequences.mean(x), sequences.exclusive_cumsum(x), sequences.quantile(x, 0.9)};
  };
  const Results all = [&] {
    const Threads one(1);
    return results(lengths, tokens, mask);
  }();
  const Threads several(3);
  const Results again = results(lengths, tokens, mask);
  EXPECT_TRUE(at::equal(again.sum, all.sum) && at::equal(again.before, all.before));
  EXPECT_TRUE(at::equal(again.mean, all.mean) && at::equal(again.quantile, all.quantile));
  int64_t begin = 0;
  for (int64_t s = 0; s < std::ssize(lengths); begin += lengths[s++]) {
    const auto part = [&](const Tensor& x) { return x.narrow(0, begin, lengths[s]); };
    const Results alone = results({lengths[s]}, part(tokens), part(mask));
    EXPECT_TRUE(at::equal(alone.sum, all.sum.narrow(0, s, 1))) << s;
    EXPECT_TRUE(at::equal(alone.before, part(all.before))) << s;
    EXPECT_TRUE(at::equal(alone.quantile, all.quantile.narrow(0, s, 1))) << s;
    const double want = part(tokens).masked_select(part(mask)).sum(at::kDouble).item<double>();
    EXPECT_NEAR(alone.sum.item<double>(), want, 1e-3) << s;
  }
}

}  // namespace
}  // namespace keel
