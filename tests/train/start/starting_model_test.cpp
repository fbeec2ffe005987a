// Runs that start from a model folder: saved dtypes, bitwise resumption, adapters.

#include "keel/train/start/starting_model.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keel/core/files/file.h"
#include "keel/model/folder/adapter_folder.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/formats/safetensors/safetensors.h"
#include "keel/task/task_table.h"
#include "keel/train/checkpoint/checkpoint.h"
#include "keel/train/run.h"
#include "tests/support/errors.h"
#include "tests/support/test_folder.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

class StartingModel : public testing::Test {
 protected:
  void SetUp() override {
    create_directories(base_);
    write_base(at::kBFloat16);
  }

  void write_base(at::ScalarType dtype) const {
    write_model_folder(base_, warm_model(), make_task(run_config().task)->tokenizer(), Json::object(), dtype);
  }

  /// Returns a run of two steps in folder `name` from the base model.
  Config run_config(const std::string& name = "run") const {
    Config config = tiny_run("dppo_tv");
    config.model = {.path = base_.string()};
    config.run.dir = folder_ / name;
    config.train.steps = 2;
    config.eval.prompts = 0;
    config.checkpoint.every = 1;
    config.checkpoint.keep = 9;
    return config;
  }

  std::unique_ptr<keel::Run> run(const Config& config) {
    auto result = keel::Run::start(config, /*replace=*/true, console_);
    EXPECT_EQ(result->run(), ExitCode::kDone);
    return result;
  }

  /// Runs one step and resumes for the second.
  std::unique_ptr<keel::Run> run_in_two_parts(Config config) {
    Config half = config;
    half.train.steps = 1;
    run(half);
    auto result = keel::Run::resume(config, console_);
    EXPECT_EQ(result->run(), ExitCode::kDone);
    return result;
  }

  static void expect_same_bits(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i].value, b[i].value)) << a[i].name;
  }

  const TestFolder made_;
  const std::filesystem::path &folder_ = made_.path, base_ = folder_ / "base";
  Console console_{stderr};
};

TEST_F(StartingModel, SavesInTheDtypeOfTheSourceAndResumesFromFloat32) {
  const auto whole = run(run_config("whole"));
  const SafetensorsFile saved = SafetensorsFile::open(whole->last_checkpoint() / "model.safetensors");
  for (const TensorInfo& info : saved.tensors()) EXPECT_EQ(info.dtype, at::kBFloat16) << info.name;
  for (const NamedTensor& weight : whole->policy().model.parameters()) {
    EXPECT_EQ(weight.value.scalar_type(), at::kFloat);
    EXPECT_TRUE(at::equal(saved.read(weight.name), weight.value.to(at::kBFloat16))) << weight.name;
  }
  bool lost_by_rounding = false;
  for (const NamedTensor& weight : whole->policy().model.parameters())
    lost_by_rounding |= !at::equal(weight.value.to(at::kBFloat16).to(at::kFloat), weight.value);
  EXPECT_TRUE(lost_by_rounding);  // else the next checks would be trivial
  expect_same_bits(run_in_two_parts(run_config("parts"))->policy().model.parameters(),
                   whole->policy().model.parameters());
}

TEST_F(StartingModel, TrainsOnlyTheAdapterAndResumesBitwise) {
  Config config = run_config("whole");
  config.lora.rank = 2;
  const auto whole = run(config);
  expect_same_bits(whole->policy().model.parameters(), read_model_folder(base_, at::kCPU).parameters());
  double moved = 0;
  for (const NamedTensor& weight : whole->policy().model.adapter())
    if (weight.name.ends_with("lora_B.weight")) moved += weight.value.abs().sum().item<double>();
  EXPECT_GT(moved, 0);

  config.run.dir = folder_ / "parts";
  expect_same_bits(run_in_two_parts(config)->policy().model.adapter(), whole->policy().model.adapter());

  // The folder has the merged weights in the base's dtype; a folder inside it has the adapter.
  std::vector<NamedTensor> merged = whole->policy().model.merged({}).parameters();
  for (NamedTensor& weight : merged) weight.value = weight.value.to(at::kBFloat16).to(at::kFloat);
  expect_same_bits(read_model_folder(whole->last_checkpoint(), at::kCPU).parameters(), merged);
  ModelWeights again = read_model_folder(base_, at::kCPU);
  EXPECT_EQ(read_adapter(whole->last_checkpoint() / "adapter", again)["r"], 2);
  expect_same_bits(again.adapter(), whole->policy().model.adapter());
}

TEST_F(StartingModel, ContinuesTrainingAnAdapter) {
  Config config = run_config("first");
  config.lora.rank = 2;
  config.lora.alpha = 3;
  const auto first = run(config);
  Config second = run_config("second");
  second.lora.adapter = (first->last_checkpoint() / "adapter").string();
  second.train.steps = 0;
  const auto begun = keel::Run::start(second, /*replace=*/true, console_);
  expect_same_bits(begun->policy().model.adapter(), first->policy().model.adapter());
  expect_same_bits(begun->policy().model.merged({}).parameters(), first->policy().model.merged({}).parameters());
}

TEST_F(StartingModel, RejectsAnAdapterOfAnotherBase) {
  Config config = run_config();
  config.lora.rank = 2;
  run(config);
  config.train.steps = 3;
  const auto refused = AllOf(HasSubstr("model.path"), HasSubstr("other weights"), HasSubstr("config.json"));
  const auto file = std::filesystem::path(config.model.path) / "config.json";
  const std::string saved = read_file(file);
  Json changed = Json::parse(saved);
  changed["rms_norm_eps"] = 1e-4;  // same weights, different network
  write_atomically(file, changed.dump());
  EXPECT_THAT(error_of(3, [&] { keel::Run::resume(config, console_); }), refused);
  write_atomically(file, saved);
  write_base(at::kHalf);  // same weights, rounded differently
  EXPECT_THAT(error_of(3, [&] { keel::Run::resume(config, console_); }), refused);
}

TEST_F(StartingModel, DetectsADamagedAdapter) {
  Config config = run_config();
  config.lora.rank = 2;
  const auto done = run(config);
  const std::filesystem::path file = done->last_checkpoint() / "adapter" / "adapter_model.safetensors";
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_atomically(file, bytes);
  EXPECT_THAT(find_damage(done->last_checkpoint()).value_or(""), HasSubstr("adapter/adapter_model.safetensors"));
}

TEST_F(StartingModel, RandomWeightsUseOnlyTheArchitecture) {
  Config config = run_config();
  config.model.random_weights = true;
  const auto task = make_task(config.task);
  const auto file = std::filesystem::path(config.model.path) / "config.json";
  Json json = Json::parse(read_file(file));
  json["pad_token_id"] = *task->tokenizer().pad_id();
  write_atomically(file, json.dump());
  const LoadedModel start = load_starting_model(config, {at::kCPU});
  EXPECT_EQ(start.tokenizer.size(), task->tokenizer().size());
  EXPECT_EQ(start.dtypes.get("model.norm.weight"), at::kBFloat16);
  const std::vector<NamedTensor> fresh = start.model.parameters(), stored = warm_model().parameters();
  ASSERT_EQ(fresh.size(), stored.size());
  for (size_t i = 0; i < fresh.size(); ++i) {
    if (fresh[i].value.dim() < 2) continue;
    EXPECT_FALSE(at::equal(fresh[i].value, stored[i].value)) << fresh[i].name;
    EXPECT_NEAR(fresh[i].value.std().item<double>(), start.model.config().initializer_range, 0.01) << fresh[i].name;
  }
  // transformers initialises the embedding of the padding token to 0.
  EXPECT_EQ(fresh[0].value[*start.tokenizer.pad_id()].abs().sum().item<double>(), 0);
}

TEST_F(StartingModel, RejectsContradictingSettings) {
  Config shape = run_config();
  shape.model.layers = 3;
  EXPECT_THAT(error_of(2, [&] { check_consistency(shape); }),
              AllOf(HasSubstr("model.layers"), HasSubstr("model.path")));
  Config nothing;
  nothing.model.random_weights = true;
  EXPECT_THAT(error_of(2, [&] { check_consistency(nothing); }), HasSubstr("model.random_weights needs model.path"));
  Config both = run_config();
  both.lora = {.rank = 4, .adapter = "somewhere"};
  EXPECT_THAT(error_of(2, [&] { check_consistency(both); }), HasSubstr("lora.adapter"));
  Config absent = run_config();
  absent.model.path = "no/such-model";
  EXPECT_THAT(error_of(3, [&] { keel::Run::start(absent, true, console_); }), HasSubstr("hf download"));
}

}  // namespace
}  // namespace keel
