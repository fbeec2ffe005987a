// Sampling with an adapter: merged into float32 weights, applied apart in bf16 and fp16.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>

#include "keel/core/files/file.h"
#include "keel/model/folder/adapter_config.h"
#include "keel/model/folder/adapter_folder.h"
#include "keel/model/folder/model_folder.h"
#include "keel/train/run.h"
#include "tests/support/errors.h"
#include "tests/support/tiny_rollouts.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

/// Returns a network whose adapter changes its outputs.
ModelWeights adapted(const ModelWeights& base, const LoraOptions& options) {
  ModelWeights model = copy_of(base);
  model.add_adapter(options, 4);
  uint64_t seed = 9;
  for (const NamedTensor& tensor : model.adapter())
    tensor.value.copy_(random_normal(tensor.value.sizes(), ++seed) * 0.2);
  return model;
}

LogprobCheck check_against_itself(const SamplerWeights& model) {
  const Tokenizer tokenizer = tiny_tokenizer();
  return check_sampler_matches_trainer(
      model, {model.weights, model.execution}, tokenizer, tiny_prompts(),
      {.samples_per_prompt = 16, .max_new_tokens = 24, .stop_at_eos = false, .seed = 5, .top_k = 5}, 512);
}

TEST(AdapterInSampling, SamplerMatchesTrainer) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    SamplerWeights model{adapted(tiny_model(tiny_config(6, 2, false)), {.rank = 8})};
    model.masters = model.weights.set_compute_type(type);
    EXPECT_EQ(SamplingModel(model).weights().has_adapter(), type == at::kBFloat16);  // else it is merged
    EXPECT_EQ(find_logprob_mismatch(check_against_itself(model), 0, type), std::nullopt);
    const LogprobCheck without = check_sampler_matches_trainer(model, model.weights.without_adapter(), tiny_tokenizer(),
                                                               tiny_prompts(), {.max_new_tokens = 12}, 512);
    EXPECT_GT(without.mean_difference, 0.01) << "the adapter matters";
  }
}

class RunWithAnAdapter : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "keel_adapter_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    create_directories(folder_ / "base");
    create_directories(folder_ / "adapter");
    const LoraOptions options{.rank = 8};
    write_model_folder(folder_ / "base", warm_model(), make_task(tiny_run("dppo_tv").task)->tokenizer(), Json::object(),
                       at::kFloat);
    write_adapter(folder_ / "adapter", adapted(warm_model(), options).adapter(), to_adapter_json(options));
  }
  void TearDown() override { remove_tree(folder_); }

  /// Two steps in bf16 from that adapter.
  Config config(const std::string& name) const {
    Config config = tiny_run("dppo_tv");
    config.model = {.path = (folder_ / "base").string()};
    config.lora.adapter = (folder_ / "adapter").string();
    config.run.precision = "bf16";
    config.run.dir = folder_ / name;
    config.rollout.weights = "exact";
    config.objective.entropy_coefficient = 0.1;  // so that there is a gradient whatever the rewards are
    config.train.steps = 2;
    config.eval.prompts = 0;
    config.checkpoint.every = 1;
    return config;
  }

  std::unique_ptr<keel::Run> run_to_end(const std::function<std::unique_ptr<keel::Run>(Console&)>& opened) {
    Console console(std::tmpfile());
    std::unique_ptr<keel::Run> run = opened(console);
    EXPECT_EQ(run->run(), ExitCode::kDone);
    return run;
  }
  std::unique_ptr<keel::Run> start(const Config& config) {
    return run_to_end([&](Console& console) { return keel::Run::start(config, /*replace=*/true, console); });
  }

  std::filesystem::path folder_;
};

TEST_F(RunWithAnAdapter, SamplesTheSameAfterAResumption) {
  const auto whole = start(config("whole"));
  Config half = config("parts");
  half.train.steps = 1;
  start(half);
  const auto parts = run_to_end([&](Console& console) { return keel::Run::resume(config("parts"), console); });
  const std::vector<NamedTensor> want = whole->policy().model.adapter(), got = parts->policy().model.adapter();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(at::equal(got[i].value, want[i].value)) << want[i].name;
  const auto samples = [&](const char* run) { return read_file(folder_ / run / "samples.jsonl"); };
  EXPECT_EQ(samples("parts"), samples("whole"));
}

}  // namespace
}  // namespace keel
