#include "keel/train/update/minibatches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "keel/core/files/file.h"
#include "keel/train/run.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

using testing::ElementsAre;

RandomSequence draws(uint64_t seed) { return RandomSequence(seed, Stream::kShuffle, 0); }

TEST(Minibatches, HaveEveryRolloutOnceAndKeepGroupsTogether) {
  for (const auto& [total, size, block_size] :
       {std::tuple{48, 16, 8}, {48, 16, 1}, {48, 48, 8}, {12, 4, 4}, {6, 6, 1}}) {
    std::set<int64_t> seen;
    for (const std::vector<int64_t>& minibatch : minibatches(total, size, block_size, draws(5))) {
      EXPECT_EQ(static_cast<int64_t>(minibatch.size()), size);
      EXPECT_TRUE(std::is_sorted(minibatch.begin(), minibatch.end()));
      std::map<int64_t, int64_t> group_counts;
      for (const int64_t rollout : minibatch) {
        EXPECT_TRUE(seen.insert(rollout).second) << rollout;
        ++group_counts[rollout / block_size];
      }
      for (const auto& [group, count] : group_counts) EXPECT_EQ(count, block_size) << "group " << group;
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), total);
    EXPECT_EQ(*seen.rbegin(), total - 1);
  }
}

TEST(Minibatches, HaveEveryOrderOfGroupsEquallyOften) {
  std::map<std::vector<int64_t>, int> counts;
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    std::vector<int64_t> order;
    for (const std::vector<int64_t>& minibatch : minibatches(6, 2, 2, draws(seed))) order.push_back(minibatch[0] / 2);
    ++counts[order];
  }
  EXPECT_EQ(counts.size(), 6u);  // 3!
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 5 * std::sqrt(6000.0 / 6 * 5 / 6));
}

TEST(Minibatches, DependOnlyOnTheDraws) {
  EXPECT_EQ(minibatches(48, 16, 8, draws(1)), minibatches(48, 16, 8, draws(1)));
  EXPECT_NE(minibatches(48, 16, 8, draws(1)), minibatches(48, 16, 8, draws(2)));
  EXPECT_THAT(minibatches(4, 4, 1, draws(3)), ElementsAre(ElementsAre(0, 1, 2, 3)));
}

/// For each rollout of a step with 6 updates on 6 prompts of 4 samples: whether it was in the first update, which is
/// on-policy.
std::vector<bool> is_in_first_update(const std::string& shuffle) {
  Config config = tiny_run("dppo_tv");
  config.task = {};
  config.rollout.weights = "exact";
  config.train.prompts_per_step = 6;
  config.train.epochs = 1;
  config.train.sequences_per_update = 4;
  config.train.shuffle = shuffle;
  config.record.samples_per_step = 24;
  config.objective.entropy_coefficient = 0.1;  // every update changes the policy, for any rewards
  config.train.steps = 1;
  config.eval.prompts = 0;
  Console console(stderr);
  EXPECT_EQ(Run::start(config, /*replace=*/true, console)->run(), ExitCode::kDone);
  std::vector<bool> first;
  std::istringstream lines(read_file(std::filesystem::path(config.run.dir) / "samples.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    double max_change = 0;
    for (size_t t = 0; t < row["logp"].size(); ++t)
      max_change = std::max(max_change, std::abs(row["logp"][t].get<double>() - row["behavior_logp"][t].get<double>()));
    first.push_back(max_change < 1e-5);
  }
  remove_tree(config.run.dir);
  return first;
}

TEST(Minibatches, AStepTrainsOnWholeGroupsUnlessConfiguredToMixThem) {
  for (const char* shuffle : {"prompts", "rollouts"}) {
    const std::vector<bool> first = is_in_first_update(shuffle);
    ASSERT_EQ(first.size(), 24u);
    EXPECT_EQ(std::count(first.begin(), first.end(), true), 4);
    std::set<size_t> groups;
    for (size_t i = 0; i < first.size(); ++i)
      if (first[i]) groups.insert(i / 4);
    EXPECT_EQ(groups.size() == 1, std::string(shuffle) == "prompts") << shuffle;
  }
}

}  // namespace
}  // namespace keel
