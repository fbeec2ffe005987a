#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/options/options.h"
#include "keel/core/options/read_config.h"

/// A small configuration with every type of option, and helpers for its tests.
namespace keel::example {

struct RolloutOptions {
  int64_t samples_per_prompt = 8;
  double temperature = 1.0;
  std::string weights = "exact";
  std::optional<double> delta;
  std::vector<std::string> stop;
  std::vector<double> mixture = {0.5, 0.5};
  std::vector<int64_t> sizes = {1, 2};
  void describe(OptionTable& t) {
    t.add("samples_per_prompt", samples_per_prompt, "Completions sampled for each prompt.", at_least(1));
    t.add("temperature", temperature, "Softmax temperature of sampling; part of the policy.", above(0).at_most(100));
    t.add("weights", weights, "What the sampler multiplies with.", one_of({"exact", "fp8"}));
    t.add("delta", delta, "Threshold; the default depends on the divergence.", above(0));
    t.add("stop", stop, "Texts that end a completion.");
    t.add("mixture", mixture, "Shares of a|b.", at_least(0).not_empty());
    t.add("sizes", sizes, "Sizes of buckets.", below(1000));
  }
};

struct OptimizerOptions {
  double lr = 1e-6;
  bool fused = false;
  void describe(OptionTable& t) {
    t.add("lr", lr, "Learning rate.", above(0));
    t.add("fused", fused, "One kernel for all parameters.");
  }
};

struct TrainOptions {
  int64_t prompts_per_step = 16;
  uint64_t seed = 1;
  std::string name = "run";
  std::optional<std::string> note;
  std::optional<int64_t> limit;
  std::optional<bool> shuffle;
  OptimizerOptions inner{};
  void describe(OptionTable& t) {
    t.add("prompts_per_step", prompts_per_step, "Prompts in a step.", at_least(1));
    t.add("seed", seed, "Seed of everything.");
    t.add("name", name, "Name of the run.", not_empty());
    t.add("note", note, "A remark.");
    t.add("limit", limit, "A limit.", at_least(1).below(10));
    t.add("shuffle", shuffle, "Whether to shuffle.");
    t.section("inner", "A section in a section.", inner);
  }
};

struct Config {
  RolloutOptions rollout;
  OptimizerOptions optimizer;
  TrainOptions train;
  void describe(OptionTable& t) {
    t.section("rollout", "How completions are sampled.", rollout);
    t.section("optimizer", "How weights change.", optimizer);
    t.section("train", "The loop.", train);
    t.refuse("train.steps_per_epoch", "was renamed. Fix: set train.prompts_per_step");
    t.refuse("critic", "was removed");
  }
};

struct Fixture {
  Config config;
  OptionTable table;
  Fixture() { config.describe(table); }
  void load(const std::string& json) { table.load(parse_config(json, "run.json")); }
  void load_overrides(const std::vector<std::string>& overrides) {
    ConfigTree tree;
    for (const std::string& text : overrides) apply_override(tree, text);
    table.load(tree);
  }
};

template <class Action>
std::string error_of(Action action, ExitCode code = ExitCode::kBadConfiguration) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

inline std::string load_error(const std::string& json) {
  return error_of([&] { Fixture().load(json); });
}

inline std::string override_error(const std::string& assignment) {
  return error_of([&] { Fixture().load_overrides({assignment}); });
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace keel::example
