// Sampling with an adapter: merged into the weights, or kept separate if merging loses too much to rounding.

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

TEST(SeparateAdapter, SamplerMatchesTrainer) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    SamplerWeights model{adapted(tiny_model(tiny_config(6, 2, false)), {.rank = 8})};
    model.masters = model.weights.set_compute_type(type);
    EXPECT_TRUE(model.merges_adapter());
    const LogprobCheck merged = check_against_itself(model);
    model.execution.separate_adapter = true;
    EXPECT_FALSE(model.merges_adapter());
    const LogprobCheck separate = check_against_itself(model);
    EXPECT_EQ(find_logprob_mismatch(separate, 0, type), std::nullopt);
    EXPECT_TRUE(SamplingModel(model).weights().has_adapter());
    // In bf16 merging rounds every weight of the layer again.
    if (type == at::kBFloat16) {
      EXPECT_LT(separate.mean_difference, merged.mean_difference);
    }
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
  Config config(const std::string& name, double limit) const {
    Config config = tiny_run("dppo_tv");
    config.model = {.path = (folder_ / "base").string()};
    config.lora.adapter = (folder_ / "adapter").string();
    config.run.precision = "bf16";
    config.run.dir = folder_ / name;
    config.rollout.weights = "exact";
    config.rollout.mismatch_limit = limit;
    config.objective.entropy_coefficient = 0.1;  // so that there is a gradient whatever the rewards are
    config.train.steps = 2;
    config.eval.prompts = 0;
    config.checkpoint.every = 1;
    return config;
  }

  /// Runs to the end, and keeps the output and the error.
  std::unique_ptr<keel::Run> run_to_end(const std::function<std::unique_ptr<keel::Run>(Console&)>& opened) {
    std::FILE* file = std::tmpfile();
    std::unique_ptr<keel::Run> run;
    {
      Console console(file);
      run = opened(console);
      error_ = "";
      try {
        EXPECT_EQ(run->run(), ExitCode::kDone);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kHealthGuard);
        error_ = error.what();
      }
    }
    output_.resize(static_cast<size_t>(std::ftell(file)));
    std::rewind(file);
    EXPECT_EQ(std::fread(output_.data(), 1, output_.size(), file), output_.size());
    std::fclose(file);
    return run;
  }
  std::unique_ptr<keel::Run> start(const Config& config) {
    return run_to_end([&](Console& console) { return keel::Run::start(config, /*replace=*/true, console); });
  }

  static double number_after(const std::string& text, const std::string& label) {
    const size_t begin = text.find(label);
    EXPECT_NE(begin, std::string::npos) << label << " in: " << text;
    return begin == std::string::npos ? NAN : std::stod(text.substr(begin + label.size()));
  }

  /// Returns a limit that a separate adapter passes and a merged one does not.
  double limit_between() {
    start(config("none", 1e-9));  // fails in any case
    const std::string mean = "the mean of |pi - mu| is ";
    const double merged = number_after(output_, "with the adapter merged " + mean),
                 separate = number_after(error_, mean);
    EXPECT_LT(separate, merged);
    return std::sqrt(merged * separate);
  }

  std::filesystem::path folder_;
  std::string output_, error_;
};

constexpr const char* kSeparateNote = "the sampler now keeps the adapter separate";

TEST_F(RunWithAnAdapter, MergesItForSamplingIfTheSelfTestPasses) {
  const auto run = start(config("merged", 0));
  EXPECT_FALSE(load_state(run->last_checkpoint()).rl.adapter_apart);
  EXPECT_THAT(output_, Not(HasSubstr(kSeparateNote)));
}

TEST_F(RunWithAnAdapter, KeepsItSeparateIfMergingFailsTheSelfTestAndStopsIfBothFail) {
  const double limit = limit_between();
  EXPECT_THAT(error_, HasSubstr("sampler and trainer disagree at equal weights"));
  const auto run = start(config("apart", limit));
  EXPECT_EQ(error_, "");
  EXPECT_TRUE(load_state(run->last_checkpoint()).rl.adapter_apart);
  EXPECT_THAT(output_, HasSubstr(kSeparateNote));
  EXPECT_THAT(output_, HasSubstr("self-test: sampler and trainer agree on"));
  EXPECT_THAT(read_file(folder_ / "apart" / "log.txt"), HasSubstr(kSeparateNote));
  EXPECT_THAT(read_file(run->last_checkpoint() / "state.json"), HasSubstr("\"adapter_apart\": true"));
}

TEST_F(RunWithAnAdapter, ResumesWithTheSameSamplingBitwise) {
  const double limit = limit_between();
  const auto whole = start(config("whole", limit));
  start(config("merged", 0));
  Config half = config("parts", limit);
  half.train.steps = 1;
  start(half);
  // With the new limit a new run would merge.
  const auto parts = run_to_end([&](Console& console) { return keel::Run::resume(config("parts", 0), console); });
  EXPECT_THAT(output_, Not(HasSubstr(kSeparateNote)));
  EXPECT_TRUE(load_state(parts->last_checkpoint()).rl.adapter_apart);
  const std::vector<NamedTensor> want = whole->policy().model.adapter(), got = parts->policy().model.adapter();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(at::equal(got[i].value, want[i].value)) << want[i].name;
  const auto samples = [&](const char* run) { return read_file(folder_ / run / "samples.jsonl"); };
  EXPECT_EQ(samples("parts"), samples("whole"));
  EXPECT_NE(samples("merged"), samples("whole")) << "the runs do not differ";
}

}  // namespace
}  // namespace keel
