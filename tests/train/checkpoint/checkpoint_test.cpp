#include "keel/train/checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "keel/core/files/file.h"
#include "keel/core/tensor/device.h"
#include "keel/record/run_ownership.h"
#include "tests/support/errors.h"
#include "tests/support/reference_model.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CheckpointTest : public testing::Test {
 protected:
  /// A checkpoint of a small network whose weights depend on the step.
  static Checkpoint at_step(int64_t step) {
    const ModelConfig config = tiny_config(/*heads=*/2, /*kv_heads=*/1, /*tied=*/false);
    const Tokenizer tokenizer = Tokenizer::word_level({"<pad>", "<bos>", "<eos>", "a"}, {"<pad>", "<bos>", "<eos>"});
    Checkpoint checkpoint{
        .policy = {.model = tiny_model(config, static_cast<uint64_t>(step + 1)), .tokenizer = tokenizer},
        .optimizer = {{"a.first_moment", random_normal({3, 2}, 5)}, {"a.updates", at::ones({})}},
        .state = {},
        .lines = {.metrics = {0x0000000a, 0xffffffff}, .samples = {}, .log = {0x12345678}},
        .config = {{"run", {{"seed", 18446744073709551615u}}}},
        .run = "0123456789abcdef"};
    checkpoint.state.phase = Phase::kRl;
    checkpoint.state.rl.steps = step;
    checkpoint.state.sft.loss_average = 0.1 + 0.2;  // must be restored bitwise
    checkpoint.state.rl.thresholds = {0.15 * 1.1, 1e-4 / 3};
    checkpoint.state.rl.prompt_position = (uint64_t{1} << 53) + 1;
    return checkpoint;
  }

  std::filesystem::path save(int64_t step, int64_t keep = 5) const {
    return save_checkpoint(checkpoints_, at_step(step), keep);
  }

  std::string newest(std::vector<std::string>& notes) const {
    return newest_checkpoint(checkpoints_, notes).filename().string();
  }
  std::string newest() const {
    std::vector<std::string> notes;
    return newest(notes);
  }

  const TestFolder made_;
  const std::filesystem::path &folder_ = made_.path, checkpoints_ = folder_ / "checkpoints";
};

TEST_F(CheckpointTest, IsRestoredBitwise) {
  const Checkpoint saved = at_step(7);
  const Checkpoint loaded = load_checkpoint(save(7), at::kCPU);
  const auto before = saved.policy.model.parameters(), after = loaded.policy.model.parameters();
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].name, after[i].name);
    EXPECT_TRUE(at::equal(before[i].value, after[i].value)) << before[i].name;
  }
  ASSERT_EQ(loaded.optimizer.size(), 2u);
  for (const NamedTensor& tensor : loaded.optimizer)
    EXPECT_TRUE(at::equal(tensor.value, saved.optimizer[tensor.name == "a.updates" ? 1 : 0].value)) << tensor.name;
  EXPECT_EQ(loaded.state.phase, Phase::kRl);
  EXPECT_EQ(loaded.state.step(), 7);
  EXPECT_EQ(loaded.state.sft.loss_average, 0.1 + 0.2);
  EXPECT_EQ(loaded.state.rl.thresholds.value().low, 0.15 * 1.1);
  EXPECT_EQ(loaded.state.rl.thresholds.value().high, 1e-4 / 3);
  EXPECT_EQ(loaded.state.rl.prompt_position, 9007199254740993u);  // 2^53 + 1 is not a double
  EXPECT_THAT(loaded.lines.metrics, ElementsAre(0x0000000a, 0xffffffff));
  EXPECT_THAT(loaded.lines.samples, IsEmpty());
  EXPECT_THAT(loaded.lines.log, ElementsAre(0x12345678));
  EXPECT_EQ(loaded.config, saved.config);
}

TEST_F(CheckpointTest, HasHuggingFaceFileNamesAndACompleteManifest) {
  const std::filesystem::path path = save(7);
  EXPECT_EQ(path.filename(), "step-000007");
  EXPECT_EQ(read_file(checkpoints_ / "LATEST"), "step-000007\n");
  EXPECT_THAT(list_directory(path), ElementsAre("config.json", "generation_config.json", "manifest.json",
                                                "model.safetensors", "optimizer.safetensors", "special_tokens_map.json",
                                                "state.json", "tokenizer.json", "tokenizer_config.json"));
  const Json manifest = Json::parse(read_file(path / "manifest.json"));
  EXPECT_EQ(manifest.at("step"), 7);
  EXPECT_EQ(manifest.at("files").size(), 8u);  // all except the manifest
  EXPECT_EQ(find_damage(path), std::nullopt);
}

TEST_F(CheckpointTest, AnyDamagedByteIsDetected) {
  const std::filesystem::path path = save(7);
  for (const std::string& name : list_directory(path)) {
    if (name == "manifest.json") continue;
    const std::string bytes = read_file(path / name);
    for (const size_t at : {size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
      std::string flipped = bytes;
      flipped[at] ^= 0x10;
      write_atomically(path / name, flipped);
      EXPECT_THAT(find_damage(path).value_or("nothing"), HasSubstr(name + " has another checksum")) << at;
    }
    write_atomically(path / name, bytes.substr(0, bytes.size() - 1));
    EXPECT_THAT(find_damage(path).value_or("nothing"), HasSubstr(name + " has " + std::to_string(bytes.size() - 1)));
    write_atomically(path / name, bytes + "x");
    EXPECT_THAT(find_damage(path).value_or("nothing"), HasSubstr(std::to_string(bytes.size() + 1) + " bytes"));
    remove_tree(path / name);
    EXPECT_EQ(find_damage(path), name + " is missing");
    write_atomically(path / name, bytes);
    ASSERT_EQ(find_damage(path), std::nullopt);
  }
}

TEST_F(CheckpointTest, ADamagedManifestIsDetected) {
  const std::filesystem::path path = save(7), manifest = path / "manifest.json";
  const std::string bytes = read_file(manifest);
  Json shorter = Json::parse(bytes);
  shorter["files"].erase("state.json");
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"), std::string(R"({"files": 3})"),
        std::string(R"({"files": {"config.json": {"bytes": "x", "crc32c": "00000000"}}})"), shorter.dump()}) {
    write_atomically(manifest, text);
    EXPECT_NE(find_damage(path), std::nullopt) << text;
  }
  remove_tree(manifest);
  EXPECT_NE(find_damage(path), std::nullopt);
}

TEST_F(CheckpointTest, TheNewestHasTheLargestStepNotTheLastName) {
  EXPECT_EQ(newest(), "");  // the folder does not exist
  // Renamed, because a save removes later steps.
  rename_directory(save(3), folder_ / "aside");
  rename_directory(save(4), checkpoints_ / "step-999999");
  rename_directory(folder_ / "aside", checkpoints_ / "step-1000000");
  EXPECT_EQ(newest(), "step-1000000");  // sorts before step-999999 as text
}

TEST_F(CheckpointTest, OtherFilesAreIgnored) {
  save(3);
  for (const char* name : {"step-000009.partial", "step-", "step-00x", "step-99999999999999999999", "other"})
    create_directories(checkpoints_ / name);
  write_atomically(checkpoints_ / "LATEST", "step-000009\n");
  std::vector<std::string> notes;
  EXPECT_EQ(newest(notes), "step-000003");
  EXPECT_THAT(notes, IsEmpty());
}

TEST_F(CheckpointTest, ADamagedOneIsSkippedWithANote) {
  save(3);
  save(5);
  write_atomically(checkpoints_ / "step-000005/state.json", "{}");
  std::vector<std::string> notes;
  EXPECT_EQ(newest(notes), "step-000003");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("step-000005 is damaged (state.json"));
  remove_tree(checkpoints_ / "step-000003/model.safetensors");
  EXPECT_EQ(newest(), "");
}

TEST_F(CheckpointTest, OnlyTheNewestAreKept) {
  for (const int64_t step : {1, 2, 3}) save(step, /*keep=*/2);
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "step-000002", "step-000003"));
  save(4, /*keep=*/1);
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "step-000004"));
}

TEST_F(CheckpointTest, TheBestOneIsKeptAndLinked) {
  const auto save_with_best = [&](int64_t step, int64_t best) {
    Checkpoint checkpoint = at_step(step);
    checkpoint.state.best = {.step = best};
    save_checkpoint(checkpoints_, checkpoint, /*keep=*/1);
    return std::filesystem::read_symlink(checkpoints_ / "best").string();
  };
  EXPECT_EQ(save_with_best(1, 1), "step-000001");
  EXPECT_EQ(save_with_best(2, 1), "step-000001");
  EXPECT_EQ(save_with_best(3, 1), "step-000001");
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "best", "step-000001", "step-000003"));
  EXPECT_EQ(load_checkpoint(checkpoints_ / "best", at::kCPU).state.step(), 1);
  EXPECT_EQ(newest(), "step-000003");
  EXPECT_EQ(save_with_best(4, 4), "step-000004");
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "best", "step-000004"));
  // A killed process did not move the link; the resumed run moves it.
  std::filesystem::remove(checkpoints_ / "best");
  std::filesystem::create_symlink("step-000002", checkpoints_ / "best");
  finish_save(checkpoints_ / "step-000004", BestEvaluation{.step = 4});
  EXPECT_EQ(std::filesystem::read_symlink(checkpoints_ / "best"), "step-000004");
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "best", "step-000004"));
  save(5, /*keep=*/1);  // the run does not keep a best one any more
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "step-000005"));
}

TEST_F(CheckpointTest, AUsersFileNamedBestIsMovedAside) {
  const std::filesystem::path best = checkpoints_ / "best";
  create_directories(best / "thesis");
  Checkpoint checkpoint = at_step(1);
  checkpoint.state.best = {.step = 1};
  save_checkpoint(checkpoints_, checkpoint, /*keep=*/1, /*first=*/true);
  EXPECT_TRUE(path_exists(checkpoints_ / "best.other/thesis"));
  std::filesystem::remove(best);
  std::filesystem::create_symlink("../elsewhere", best);
  finish_save(checkpoints_ / "step-000001", BestEvaluation{.step = 1});
  EXPECT_EQ(std::filesystem::read_symlink(checkpoints_ / "best.other2"), "../elsewhere");
  EXPECT_EQ(std::filesystem::read_symlink(best), "step-000001");
}

TEST_F(CheckpointTest, TheLinkNeverDangles) {
  const std::filesystem::path last = save(2);
  std::filesystem::create_symlink("step-000001", checkpoints_ / "best");
  finish_save(last, BestEvaluation{.step = 1});
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "step-000002"));
}

TEST_F(CheckpointTest, ACopyDoesNotChangeWithTraining) {
  Checkpoint checkpoint = at_step(7);
  checkpoint.critic = Critic::create(checkpoint.policy.model, {}, /*own_body=*/true);
  const auto all_of = [](const Checkpoint& c) {
    std::vector<NamedTensor> all = c.policy.model.parameters();
    for (const NamedTensor& tensor : c.optimizer) all.push_back(tensor);
    for (const NamedTensor& tensor : MasterWeights().value_of(c.critic->weights())) all.push_back(tensor);
    return all;
  };
  std::vector<Tensor> before;
  int64_t bytes = 0;
  for (const NamedTensor& tensor : all_of(checkpoint)) {
    before.push_back(tensor.value.clone());
    bytes += tensor.value.numel() * 4;
  }
  EXPECT_EQ(bytes_to_copy(checkpoint), bytes);
  const Checkpoint copy = copied_to_host(checkpoint);
  for (const NamedTensor& tensor : all_of(checkpoint)) tensor.value.add_(1);
  const std::vector<NamedTensor> after = all_of(copy);
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(at::equal(after[i].value, before[i])) << after[i].name;
}

TEST_F(CheckpointTest, ACopyMustFitIntoMemory) {
  EXPECT_TRUE(has_room_for_copy(/*bytes=*/300, /*needed_again=*/600, /*available=*/1000));
  EXPECT_FALSE(has_room_for_copy(301, 600, 1000));  // a tenth stays free
  EXPECT_FALSE(has_room_for_copy(0, 901, 1000));
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_LE(available_memory_bytes(), machine_memory_bytes());
  constexpr int64_t kBytes = 100 << 20;
  const int64_t before = resident_memory_bytes();
  const Tensor more = at::ones({kBytes}, at::kByte);
  EXPECT_NEAR(static_cast<double>(resident_memory_bytes() - before), kBytes, 10 << 20);
}

TEST_F(CheckpointTest, ACopyWithoutEnoughMemoryChangesNothing) {
  Checkpoint checkpoint = at_step(7);
  constexpr int64_t kElements = int64_t{1} << 30;  // 4 GiB if copied; here an expanded scalar
  checkpoint.optimizer.push_back({"large", at::zeros({1}).expand({kElements})});
  const std::vector<NamedTensor> before = checkpoint.optimizer;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlimit less{pages * static_cast<rlim_t>(sysconf(_SC_PAGE_SIZE)) + (rlim_t{1} << 30), limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &less), 0);
  const bool copied = copy_to_host(checkpoint);
  setrlimit(RLIMIT_AS, &limit);
  EXPECT_FALSE(copied);
  ASSERT_EQ(checkpoint.optimizer.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(checkpoint.optimizer[i].value.is_same(before[i].value));
  checkpoint.optimizer.pop_back();
  EXPECT_TRUE(copy_to_host(checkpoint));
  EXPECT_FALSE(checkpoint.optimizer[0].value.is_same(before[0].value));
}

TEST_F(CheckpointTest, ADamagedLaterOneNeverReplacesAValidOne) {
  save(3);
  save(9);
  write_atomically(checkpoints_ / "step-000009/state.json", "{}");
  save(4, /*keep=*/1);  // the run resumed from step 3 and keeps one
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "step-000004"));
  EXPECT_EQ(newest(), "step-000004");
}

TEST_F(CheckpointTest, TheNextSaveRemovesLeftoversOfKilledProcesses) {
  for (const std::string& name :
       {"step-000002." + at_step(2).run + ".partial", "step-000001." + at_step(1).run + ".replaced"}) {
    create_directories(checkpoints_ / name);
    write_atomically(checkpoints_ / name / "model.safetensors", "half");
  }
  save(3);
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "step-000003"));
}

TEST_F(CheckpointTest, ACheckpointWithAUsersFileIsKept) {
  write_atomically(save(2) / "notes.txt", "mine");
  create_directories(save(3) / "mine");
  write_atomically(checkpoints_ / "step-000003/mine/notes.txt", "mine");
  save(3, /*keep=*/1);  // again
  save(4, /*keep=*/1);
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "step-000002", "step-000003.other", "step-000004"));
  EXPECT_EQ(read_file(checkpoints_ / "step-000002/notes.txt"), "mine");
  EXPECT_EQ(read_file(checkpoints_ / "step-000003.other/mine/notes.txt"), "mine");
}

TEST_F(CheckpointTest, AFolderWithoutAnOwnerIsMovedAside) {
  create_directories(checkpoints_ / "step-000003");
  write_atomically(checkpoints_ / "step-000003/state.json", "mine");
  save(3);
  EXPECT_EQ(find_damage(checkpoints_ / "step-000003"), std::nullopt);
  EXPECT_EQ(read_file(checkpoints_ / "step-000003.other/state.json"), "mine");
}

TEST_F(CheckpointTest, FoldersThatOnlyResembleLeftoversAreKept) {
  for (const char* name : {"thesis.partial", "step-x.partial", "notes.replaced", "step-000002.partial"}) {
    create_directories(checkpoints_ / name);
    write_atomically(checkpoints_ / name / "model.safetensors", "mine");
  }
  write_atomically(checkpoints_ / "film.mkv.partial", "mine");
  save(3);
  EXPECT_THAT(list_directory(checkpoints_),
              ElementsAre("LATEST", "film.mkv.partial", "notes.replaced", "step-000002.partial", "step-000003",
                          "step-x.partial", "thesis.partial"));
  EXPECT_EQ(read_file(checkpoints_ / "thesis.partial/model.safetensors"), "mine");
}

TEST_F(CheckpointTest, CheckpointsOfOtherRunsAreKeptAndNotResumed) {
  write_atomically(folder_ / "used.json", Json{{"run.id", at_step(3).run}}.dump());
  save(2);
  Checkpoint another = at_step(900000);
  another.run = "another";
  rename_directory(save_checkpoint(folder_ / "other", another, 5), checkpoints_ / "step-900000");
  another.run = "older";
  rename_directory(save_checkpoint(folder_ / "older", another, 5), checkpoints_ / "step-000001");
  create_directories(checkpoints_ / "step-000099");
  write_atomically(checkpoints_ / "step-000099/model.safetensors", "mine");
  create_directories(checkpoints_ / "LATEST.partial/precious");
  save(3, /*keep=*/1);
  EXPECT_THAT(list_directory(checkpoints_),
              ElementsAre("LATEST", "LATEST.partial", "step-000001", "step-000003", "step-000099", "step-900000"));
  EXPECT_EQ(newest(), "step-000003");
  EXPECT_EQ(load_checkpoint(checkpoints_ / "step-000003", at::kCPU).run, at_step(3).run);
  save(900000);
  EXPECT_EQ(read_run_id(checkpoints_ / "step-900000.other"), "another");
  EXPECT_EQ(read_run_id(checkpoints_ / "step-900000"), at_step(3).run);
}

TEST_F(CheckpointTest, AFlippedBitInTheRunIdIsDamageAndNotAnotherRun) {
  save(2);
  const std::filesystem::path manifest = save(3) / "manifest.json";
  std::string bytes = read_file(manifest);
  bytes[bytes.find(at_step(3).run)] ^= 0x01;
  write_atomically(manifest, bytes);
  EXPECT_EQ(newest(), "step-000002");
  save(3);
  EXPECT_EQ(newest(), "step-000003");
  EXPECT_EQ(find_damage(checkpoints_ / "step-000003"), std::nullopt);
}

TEST_F(CheckpointTest, NothingIsWrittenIfAllCheckpointsAreAnotherRuns) {
  save(2);
  Checkpoint another = at_step(5);
  another.run = "another";
  EXPECT_THAT(error_of(2, [&] { save_checkpoint(checkpoints_, another, 1, /*first=*/false); }),
              HasSubstr("the folder has none of this run"));
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "step-000002"));
  EXPECT_EQ(read_file(checkpoints_ / "LATEST"), "step-000002\n");
  save_checkpoint(checkpoints_, another, 1, /*first=*/true);  // a new run in a used folder
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "step-000002", "step-000005"));
}

TEST_F(CheckpointTest, AnAmbiguousFolderHasNoNewestCheckpoint) {
  save(2);
  Checkpoint another = at_step(5);
  another.run = "another";
  rename_directory(save_checkpoint(folder_ / "other", another, 5), checkpoints_ / "step-000005");
  EXPECT_THAT(error_of(3, [&] { newest(); }), HasSubstr("no checkpoint of this run"));
  write_atomically(folder_ / "used.json", R"({"run.id": ")" + at_step(2).run + R"("})");
  EXPECT_EQ(newest(), "step-000002");
}

TEST_F(CheckpointTest, ResumingFinishesAKilledSave) {
  save(3);
  const std::filesystem::path path = save(5);
  write_atomically(checkpoints_ / "LATEST", "step-000003\n");  // killed between the rename and LATEST
  write_atomically(checkpoints_ / "LATEST.partial", "step-00");
  const auto directory = LockedDirectory::lock(folder_);
  finish_save(path);
  EXPECT_EQ(read_file(checkpoints_ / "LATEST"), "step-000005\n");
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "step-000003", "step-000005"));
}

TEST_F(CheckpointTest, SavingAStepAgainReplacesIt) {
  const std::filesystem::path path = save(3);
  write_atomically(path / "state.json", "{}");
  save(3);
  EXPECT_EQ(find_damage(path), std::nullopt);
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "step-000003"));
}

TEST_F(CheckpointTest, AFailedSaveLeavesOnlyTheOldCheckpoints) {
  save(3);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);  // as in main()
  const rlimit small{.rlim_cur = 600, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = error_of(4, [&] { save(5); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(message, HasSubstr("step-000005." + at_step(5).run + ".partial/model.safetensors"));
  EXPECT_THAT(list_directory(checkpoints_), ElementsAre("LATEST", "step-000003"));
  EXPECT_EQ(newest(), "step-000003");
}

TEST_F(CheckpointTest, OtherFormatVersionsAreRefused) {
  const std::filesystem::path path = save(7), manifest = path / "manifest.json";
  const std::string bytes = read_file(manifest), own = Json::parse(bytes).at("format");
  EXPECT_EQ(own, "keel checkpoint 5");
  for (const auto& [format, whose] :
       {std::pair{"keel checkpoint 2", "an older Keel"}, {"keel checkpoint 6", "a newer Keel"}}) {
    std::string other = bytes;
    write_atomically(manifest, other.replace(other.find(own), own.size(), format));
    EXPECT_THAT(error_of(3, [&] { load_checkpoint(path, at::kCPU); }),
                AllOf(HasSubstr(path.string()), HasSubstr(format), HasSubstr(whose), HasSubstr(own),
                      HasSubstr("model.path=" + path.string())));
  }
  write_atomically(manifest, bytes);
  load_checkpoint(path, at::kCPU);
}

TEST_F(CheckpointTest, AStateOfAnotherVersionIsABadInputFile) {
  const std::filesystem::path path = save(3), state = path / "state.json";
  Json json = Json::parse(read_file(state));
  Json unknown_phase = json, no_step = json, no_config = json;
  unknown_phase["state"]["phase"] = "dreaming";
  no_step["state"].erase("step");
  no_config.erase("config");
  for (const Json& broken : {unknown_phase, no_step, no_config}) {
    write_atomically(state, broken.dump());
    EXPECT_THAT(error_of(3, [&] { load_checkpoint(path, at::kCPU); }), HasSubstr("state.json"));
  }
}

TEST_F(CheckpointTest, AReferenceIsRestoredBitwiseAndDamageIsReported) {
  const ModelWeights model = tiny_model(tiny_config(/*heads=*/2, /*kv_heads=*/1, /*tied=*/true), 3);
  const LoadedModel policy = at_step(1).policy;
  const std::filesystem::path folder = folder_ / "reference";
  create_directories(folder);
  write_atomically(folder / "paper.pdf", "mine");
  save_reference(folder, tiny_model(model.config(), 4), policy, "0123");
  save_reference(folder, model, policy, "0123");  // RL starts again and replaces it
  EXPECT_THAT(list_directory(folder_), ElementsAre("reference", "reference.other"));
  EXPECT_EQ(read_file(folder_ / "reference.other/paper.pdf"), "mine");
  const ModelWeights back = load_reference(folder, policy);
  for (size_t i = 0; i < model.parameters().size(); ++i)
    EXPECT_TRUE(at::equal(back.parameters()[i].value, model.parameters()[i].value)) << model.parameters()[i].name;

  std::string bytes = read_file(folder / "model.safetensors");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_atomically(folder / "model.safetensors", bytes);
  const std::string message = error_of(3, [&] { load_reference(folder, policy); });
  EXPECT_THAT(message, HasSubstr(folder.string()));
  EXPECT_THAT(message, HasSubstr("model.safetensors has another checksum"));
  EXPECT_THAT(message, HasSubstr("--overwrite"));
  remove_tree(folder);
  EXPECT_THAT(error_of(3, [&] { load_reference(folder, policy); }), HasSubstr("manifest.json"));
}

}  // namespace
}  // namespace keel
