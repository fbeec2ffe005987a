// Tensors that fill several huge pages and part of another, read by all threads.

#include "keel/model/formats/safetensors/huge_pages.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "keel/model/formats/safetensors/safetensors.h"

namespace keel {
namespace {

constexpr int64_t kHugePage = 2 << 20;

TEST(HugePages, EveryByteIsProcessedOnceBySeveralThreads) {
  constexpr int64_t kBytes = 9 * kHugePage + 12;
  std::vector<int> seen(kBytes);
  std::set<std::thread::id> threads;
  std::mutex mutex;
  parallel_for_huge_pages(kBytes, [&](int64_t begin, int64_t end) {
    ASSERT_LE(end - begin, kHugePage);
    for (int64_t i = begin; i < end; ++i) ++seen[i];
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), kBytes);
  EXPECT_GE(threads.size(), std::min<size_t>(at::get_num_threads(), 2));
}

TEST(HugePages, ATensorStartsAtAHugePageUnlessItIsSmaller) {
  const auto place = [](const Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()); };
  const Tensor large = empty_in_huge_pages({3, kHugePage}, at::kBFloat16);
  EXPECT_EQ(place(large) % kHugePage, 0u);
  EXPECT_EQ(large.sizes(), at::IntArrayRef({3, kHugePage}));
  large.fill_(1.5);  // all of it is accessible
  EXPECT_EQ(large.sum(at::kDouble).item<double>(), 4.5 * kHugePage);
  EXPECT_EQ(empty_in_huge_pages({0, 5}, at::kFloat).numel(), 0);
  EXPECT_EQ(empty_in_huge_pages({}, at::kFloat).numel(), 1);
}

TEST(HugePages, LargeTensorsAreReadCompletely) {
  const std::filesystem::path path = testing::TempDir() + "huge_pages_" + std::to_string(getpid()) + ".safetensors";
  // Odd lengths, so that tensors do not end at huge-page or piece boundaries; values that are exact in all types.
  const Tensor numbers = at::arange(3 * kHugePage / 4 + 77, at::kLong).remainder(251) - 100;
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    write_safetensors(path, {{"a", at::ones({3}, dtype)}, {"large", numbers.to(dtype)}}, {});
    const SafetensorsFile file = SafetensorsFile::open(path);
    EXPECT_TRUE(file.read("large").equal(numbers.to(dtype))) << dtype;
    EXPECT_TRUE(file.read_float32("large").equal(numbers.to(at::kFloat))) << dtype;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace keel
