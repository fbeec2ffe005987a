#include "keel/train/start/resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keel/core/tensor/device.h"
#include "tests/support/errors.h"

namespace keel {
namespace {


constexpr int64_t kGiB = int64_t{1} << 30;

Resource memory(int64_t needed) {
  return {.name = "memory",
          .needed = needed,
          .available = 8 * kGiB,
          .parts = "all weights",
          .location = "cuda:0",
          .fix = "use less"};
}

TEST(Resource, IsAnErrorAboveOneAndAQuarterOfWhatIsFree) {
  Console console(stderr, {});
  EXPECT_EQ(memory(8 * kGiB).verdict(), "fits");
  EXPECT_EQ(memory(10 * kGiB).verdict(), "tight");
  EXPECT_EQ(memory(11 * kGiB).verdict(), "does not fit");
  testing::internal::CaptureStderr();
  require_resource(memory(8 * kGiB), console);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  require_resource(memory(10 * kGiB), console);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("warning: memory: the run needs about 10.0 GiB"));
  EXPECT_THAT(error_of(2, [&] { require_resource(memory(11 * kGiB), console); }),
              AllOf(HasSubstr("the run needs about 11.0 GiB (all weights), but cuda:0 has 8.0 GiB available"),
                    HasSubstr("Fix: use less")));
}

TEST(Resource, ComparesMemoryWithWhatIsFreeOnTheMachine) {
  Config config;
  ModelConfig shape;
  const RunSizes sizes{config, shape, at::kFloat, at::kCPU};
  const Resource resource = memory_resource(sizes, {.weights = 3 * kGiB, .activations = 2 * kGiB});
  EXPECT_EQ(resource.needed, 5 * kGiB);
  EXPECT_THAT(resource.fix, HasSubstr("lora.rank"));
  EXPECT_LE(resource.available, machine_memory_bytes());
  EXPECT_GT(resource.available, 0);
  EXPECT_THAT(memory_resource(sizes, {.kv_cache = kGiB}).fix, HasSubstr("rollout.max_sequences"));
  EXPECT_THAT(memory_resource(sizes, {.activations = kGiB}).fix, HasSubstr("train.tokens_per_batch"));
}

// A checkpoint holds bf16 weights, float32 master weights and two moments: 2 + 4 + 8 bytes. The new checkpoint is
// complete before the oldest of checkpoint.keep is removed.
TEST(Resource, DiskHoldsTheKeptCheckpointsAndTheNewOne) {
  Config config;
  config.run.dir = std::string(testing::TempDir()) + "/not/there/yet";
  config.train.steps = 1000;
  config.checkpoint.every = 10;
  config.checkpoint.keep = 2;
  ModelConfig shape;
  const int64_t parameters = shape.parameter_count();
  const RunSizes sizes{config, shape, at::kFloat, at::kCPU};
  EXPECT_EQ(disk_resource(sizes, at::kBFloat16).needed, 3 * 14 * parameters);
  EXPECT_EQ(disk_resource(sizes, at::kFloat).needed, 3 * 12 * parameters);
  EXPECT_GT(disk_resource(sizes, at::kFloat).available, 0);
  config.checkpoint.best_metric = "reward/mean";
  EXPECT_EQ(disk_resource(sizes, at::kFloat).needed, 4 * 12 * parameters);
  config.checkpoint.best_metric = "none";
  config.reference.kl_coefficient = 0.1;
  EXPECT_EQ(disk_resource(sizes, at::kFloat).needed, (3 * 12 + 4) * parameters);
  config.train.steps = 5;  // one between the phases and one at the end
  config.reference.kl_coefficient = 0;
  EXPECT_EQ(disk_resource(sizes, at::kFloat).needed, 2 * 12 * parameters);
}

}  // namespace
}  // namespace keel
