// Sampling captures its steps in CUDA graphs: what must exist before, and what is left afterwards.

#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include <thread>

#include "keel/core/tensor/device.h"
#include "keel/rollout/engine.h"
#include "keel/task/task_table.h"

namespace keel {
namespace {

class CudaGraphs : public testing::Test {
 protected:
  ModelWeights random_weights(at::ScalarType type) const {
    ModelWeights model =
        ModelWeights::random(model_config({.hidden_size = 192, .heads = 3}, tokenizer_.size()), 3, {cuda_});
    model.set_compute_type(type);
    return model;
  }
  size_t sample(const SamplingModel& model, int64_t samples) const {
    Prompt prompt;
    prompt.tokens = {3, 4, 5, 6};
    return RolloutEngine(model, tokenizer_)
        .generate({&prompt, 1}, {.samples_per_prompt = samples, .max_new_tokens = 4})
        .size();
  }

  at::Device cuda_ = open_device("cuda");
  Tokenizer tokenizer_ = make_task({})->tokenizer();
};

// The prompt needs no cuBLAS on Hopper: it has few rows, and all layers have multiples of 64 inputs (192 and 512). The
// head of the first step, which is captured, is this thread's first use.
TEST_F(CudaGraphs, NeedNoCublasHandleBeforeTheFirstStep) {
  const ModelWeights model = random_weights(at::kBFloat16);
  std::thread([&] { EXPECT_EQ(sample(SamplingModel({model}), 256), 256u); }).join();
}

TEST_F(CudaGraphs, GiveTheirMemoryBack) {
  const SamplingModel model({random_weights(at::kFloat)});
  const auto bytes_after = [&] {
    sample(model, 256);
    return c10::getDeviceAllocator(at::kCUDA)->getDeviceStats(0).reserved_bytes[0].current;
  };
  bytes_after();
  const int64_t bytes = bytes_after();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(bytes_after(), bytes);
}

}  // namespace
}  // namespace keel
