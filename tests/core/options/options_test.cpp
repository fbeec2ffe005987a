#include "keel/core/options/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "keel/core/error.h"
#include "keel/core/nearest.h"
#include "keel/core/options/read_config.h"
#include "tests/core/options/example_options.h"

namespace keel {
namespace {

using namespace example;

TEST(Options, AreAssignedAndUnsetOnesKeepTheirDefaults) {
  Fixture f;
  f.load(R"({"rollout": {"samples_per_prompt": 4, "temperature": 1, "weights": "fp8", "delta": 0.15,
                                            "stop": ["a", ""], "mixture": [1, 0.25], "sizes": [1e2, -3]},
                                "optimizer": {"fused": true},
                                "train": {"seed": 18446744073709551615, "note": "x", "limit": 3, "shuffle": false,
                                          "inner": {"lr": 2}}})");
  EXPECT_EQ(f.config.rollout.samples_per_prompt, 4);
  EXPECT_EQ(f.config.rollout.temperature, 1.0);
  EXPECT_EQ(f.config.rollout.weights, "fp8");
  EXPECT_EQ(f.config.rollout.delta, 0.15);
  EXPECT_EQ(f.config.rollout.stop, (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(f.config.rollout.mixture, (std::vector<double>{1, 0.25}));
  EXPECT_EQ(f.config.rollout.sizes, (std::vector<int64_t>{100, -3}));
  EXPECT_TRUE(f.config.optimizer.fused);
  EXPECT_EQ(f.config.optimizer.lr, 1e-6);
  EXPECT_EQ(f.config.train.seed, 18446744073709551615u);
  EXPECT_EQ(f.config.train.note, "x");
  EXPECT_EQ(f.config.train.limit, 3);
  EXPECT_EQ(f.config.train.shuffle, false);
  EXPECT_EQ(f.config.train.inner.lr, 2.0);
  EXPECT_EQ(f.config.train.prompts_per_step, 16);
}

TEST(Options, AcceptNullForAnOptionalAndForAnEmptySection) {
  Fixture f;
  f.config.rollout.delta = 3;
  f.load(R"({"rollout": {"delta": null}, "optimizer": null})");
  EXPECT_EQ(f.config.rollout.delta, std::nullopt);
}

TEST(Options, AcceptOneStringForAListOfStrings) {
  Fixture f;
  f.load(R"({"rollout": {"stop": "a b"}})");
  EXPECT_EQ(f.config.rollout.stop, std::vector<std::string>{"a b"});
  f.load_overrides({"rollout.stop=x"});
  EXPECT_EQ(f.config.rollout.stop, std::vector<std::string>{"x"});
}

TEST(Options, AcceptAFloatForAnIntegerOnlyIfItIsIntegral) {
  Fixture f;
  f.load_overrides({"rollout.samples_per_prompt=1e4", "train.seed=1.8e19"});
  EXPECT_EQ(f.config.rollout.samples_per_prompt, 10000);
  EXPECT_EQ(f.config.train.seed, 18000000000000000000u);
  EXPECT_EQ(override_error("rollout.samples_per_prompt=2.5"),
            "command line: rollout.samples_per_prompt=2.5: got 2.5 (number), expected an integer at least 1");
  EXPECT_TRUE(contains(override_error("rollout.samples_per_prompt=1e19"), "expected an integer at least 1"));
  EXPECT_TRUE(contains(override_error("rollout.samples_per_prompt=9223372036854775808"), "expected an integer"));
  EXPECT_TRUE(contains(override_error("train.seed=-1"), "got -1 (integer), expected an integer at least 0"));
  EXPECT_TRUE(contains(override_error("train.seed=2e19"), "expected an integer at least 0"));
}

TEST(Options, AreNotConvertedOtherwise) {
  EXPECT_EQ(load_error("{\"rollout\":\n {\"temperature\": \"hot\"}}"),
            "run.json:2: rollout.temperature: got \"hot\" (string), expected a number above 0 and at most 100");
  EXPECT_EQ(
      load_error(R"({"rollout": {"samples_per_prompt": "3"}})"),
      "run.json:1: rollout.samples_per_prompt: got \"3\" (string), expected an integer at least 1; remove the quotes");
  EXPECT_TRUE(contains(override_error("rollout.samples_per_prompt=1_000"),
                       "(string), expected an integer at least 1; write 1000"));
  EXPECT_TRUE(contains(load_error(R"({"optimizer": {"lr": "1e999"}})"), "expected a number above 0"));
  EXPECT_EQ(load_error(R"({"train": {"name": 12}})"),
            "run.json:1: train.name: got 12 (integer), expected a string that is not empty; put it in quotes");
  EXPECT_EQ(
      load_error(R"({"train": {"name": null}})"),
      "run.json:1: train.name: got null, expected a string that is not empty; leave the key out to get the default");
  EXPECT_EQ(override_error("optimizer.fused=yes"),
            "command line: optimizer.fused=yes: got \"yes\" (string), expected a boolean; write true or false");
  EXPECT_TRUE(
      contains(override_error("optimizer.fused=1"), "got 1 (integer), expected a boolean; write true or false"));
  EXPECT_TRUE(contains(override_error("rollout.temperature=true"), "got true (boolean), expected a number"));
  EXPECT_TRUE(contains(override_error("rollout.delta=big"), "expected a number above 0, or null"));
  EXPECT_EQ(override_error("rollout.stop=x, z"),
            "command line: rollout.stop=x, z: got \"x, z\" (string), expected a list of strings; write [x, z]");
  EXPECT_TRUE(contains(override_error("rollout.stop=\"\""), "got \"\" (string), expected a list of strings"));
  EXPECT_TRUE(
      contains(load_error(R"({"rollout": {"temperature": {"a": 1}}})"), "got {\"a\":1} (mapping), expected a number"));
  EXPECT_TRUE(contains(load_error(R"({"rollout": {"temperature": [1]}})"), "got [1] (list), expected a number"));
}

TEST(Options, ObeyTheirLimits) {
  EXPECT_TRUE(
      contains(override_error("rollout.temperature=0"), "got 0 (integer), expected a number above 0 and at most 100"));
  EXPECT_TRUE(contains(override_error("rollout.temperature=100.5"), "at most 100"));
  EXPECT_TRUE(contains(override_error("rollout.samples_per_prompt=0"), "at least 1"));
  EXPECT_TRUE(contains(override_error("train.limit=10"), "expected an integer at least 1 and below 10, or null"));
  EXPECT_TRUE(contains(override_error("train.name=\"\""), "expected a string that is not empty"));
  EXPECT_TRUE(contains(override_error("rollout.mixture=[]"), "expected a non-empty list of numbers, each at least 0"));
  EXPECT_EQ(override_error("rollout.weights=FP-8"),
            "command line: rollout.weights=FP-8: got \"FP-8\" (string), expected one of exact, fp8; did you mean fp8?");
  Fixture f;
  f.load_overrides({"rollout.temperature=100", "rollout.samples_per_prompt=1", "train.limit=9"});
  EXPECT_EQ(f.config.rollout.temperature, 100);
}

TEST(Options, NameTheElementThatIsWrong) {
  EXPECT_EQ(load_error("{\"rollout\": {\"mixture\": [1,\n 2,\n -1]}}"),
            "run.json:3: rollout.mixture.2: got -1 (integer), expected a number at least 0");
  EXPECT_EQ(override_error("rollout.stop=[\"a\", 3]"),
            "command line: rollout.stop.1=3: got 3 (integer), expected a string; put it in quotes");
  EXPECT_TRUE(contains(override_error("rollout.sizes=[1, 1.5]"), "expected an integer below 1000"));
}

TEST(Options, TruncateLongValuesInErrorsAtACharacter) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\xE2\x82\xAC";
  const std::string error = error_of([&] { Fixture().load(Json{{"rollout", {{"delta", text}}}}.dump()); });
  EXPECT_TRUE(contains(error, "\xE2\x82\xAC... (string)"));
  EXPECT_LT(error.size(), 200u);
}

TEST(UnknownKeys, AreNamedWithTheNearestKnownKey) {
  EXPECT_EQ(load_error("{\"rollout\":\n{\"temprature\": 1}}"),
            "run.json:2: rollout.temprature: unknown key; did you mean rollout.temperature?");
  EXPECT_EQ(override_error("rollout.temprature=1"),
            "command line: rollout.temprature=1: unknown key; did you mean rollout.temperature?");
  EXPECT_TRUE(contains(override_error("rolout.temperature=1"),
                       "rolout={\"temperature\":1}: unknown section; did you mean rollout?"));
  EXPECT_TRUE(contains(override_error("train.inner.lt=1"), "did you mean train.inner.lr?"));
}

TEST(UnknownKeys, AreReportedWithTheSectionsThatHaveThem) {
  EXPECT_TRUE(contains(override_error("temperature=1"), "unknown key; this name exists as rollout.temperature ("));
  for (const char* part : {"optimizer.lr (", "; train.inner.lr ("})
    EXPECT_TRUE(contains(override_error("rollout.lr=1"), part));
  EXPECT_TRUE(contains(load_error(R"({"train": {"rollout": {"temperature": 1}}})"),
                       "run.json:1: train.rollout: unknown section; this name exists as rollout ("));
}

TEST(UnknownKeys, AreReportedWithTheKnownKeys) {
  EXPECT_EQ(load_error(R"({"zebra": {"x": 1}})"),
            "run.json:1: zebra: unknown section; sections are rollout, optimizer, train");
  EXPECT_TRUE(contains(override_error("optimizer.momentum=1"), "keys of optimizer are lr, fused"));
  EXPECT_TRUE(contains(override_error("rollout=3"), "rollout=3: got 3 (integer), expected a section with keys "));
}

TEST(UnknownKeys, AreCollectedUpToTwenty) {
  EXPECT_EQ(load_error("{\"rollout\": {\"temprature\": 1,\n\"weights\": \"int4\"},\n\"optimizer\": {\"lr\": 0}}"),
            "run.json:1: rollout.temprature: unknown key; did you mean rollout.temperature?\n"
            "run.json:2: rollout.weights: got \"int4\" (string), expected one of exact, fp8\n"
            "run.json:3: optimizer.lr: got 0 (integer), expected a number above 0");
  Json tree;
  for (int i = 0; i < 25; ++i) tree["zebra" + std::to_string(i)] = 1;
  const std::string error = load_error(tree.dump());
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 20);
  EXPECT_TRUE(error.ends_with("\n... and 5 more"));
}

TEST(UnknownKeys, AreExplainedByTheHint) {
  explain_unknown_keys([](const std::string& key) { return key == "num_generations" ? "TRL's" : ""; });
  EXPECT_EQ(override_error("num_generations=1"), "command line: num_generations=1: unknown key; TRL's");
  EXPECT_TRUE(contains(override_error("rollout.num_generations=1"), "unknown key; TRL's"));
  EXPECT_TRUE(contains(override_error("temperature=1"), "this name exists as rollout.temperature ("));
  explain_unknown_keys(nullptr);
}

TEST(RemovedSettings, AreReportedWithTheFix) {
  EXPECT_EQ(load_error(R"({"train": {"steps_per_epoch": 1}})"),
            "run.json:1: train.steps_per_epoch: was renamed. Fix: set train.prompts_per_step");
  EXPECT_EQ(load_error(R"({"critic": {"model": {"path": "x"}}})"), "run.json:1: critic: was removed");
}

TEST(Shorthands, AStringForASectionSetsItsPath) {
  struct Model {
    std::string path = "none";
    void describe(OptionTable& t) { t.add("path", path, "Path."); }
  } model;
  OptionTable table;
  table.section("model", "Model.", model);
  table.load(parse_config(R"({"model": "folder"})", "run.json"));
  EXPECT_EQ(model.path, "folder");
}

TEST(Table, ChecksItsOwnDefaultsAndNames) {
  EXPECT_NO_THROW(Fixture().table.load({}));
  const auto failure = [](auto describe) {
    return error_of(
        [&] {
          OptionTable table;
          describe(table);
          table.load({});
        },
        ExitCode::kInternal);
  };
  int64_t n = 0;
  double x = std::numeric_limits<double>::infinity();
  std::string s = "c";
  EXPECT_EQ(failure([&](OptionTable& t) { t.add("n", n, "N.", at_least(1)); }),
            "option table: default of n: got 0 (integer), expected an integer at least 1");
  EXPECT_TRUE(contains(failure([&](OptionTable& t) { t.add("x", x, "X."); }), "default of x"));
  EXPECT_TRUE(contains(failure([&](OptionTable& t) { t.add("s", s, "S.", one_of({"a", "b"})); }), "default of s"));
  EXPECT_TRUE(contains(failure([&](OptionTable& t) { t.add("s", s, "S.", above(1)); }), "limits that do not apply"));
  EXPECT_TRUE(contains(failure([&](OptionTable& t) { t.add("n", n, "N.", not_empty()); }), "limits that do not apply"));
  EXPECT_TRUE(contains(failure([&](OptionTable& t) { t.add("a.b", s, "S."); }), "is not a key"));
  EXPECT_TRUE(contains(failure([&](OptionTable& t) {
                         t.add("s", s, "S.");
                         t.add("s", s, "S.");
                       }),
                       "described twice"));
  EXPECT_TRUE(contains(failure([&](OptionTable& t) {
                         t.add("s", s, "S.");
                         t.refuse("s", "no");
                       }),
                       "is still in use"));
  EXPECT_TRUE(contains(failure([&](OptionTable& t) { t.get("nothing"); }), "unknown option nothing"));
}

TEST(Table, DumpsAllOptionsInOrder) {
  Fixture f;
  f.load(R"({"optimizer": {"lr": 0.5}})");
  EXPECT_EQ(f.table.dump().dump(),
            R"({"rollout":{"samples_per_prompt":8,"temperature":1.0,"weights":"exact","delta":null,"stop":[],)"
            R"("mixture":[0.5,0.5],"sizes":[1,2]},"optimizer":{"lr":0.5,"fused":false},)"
            R"("train":{"prompts_per_step":16,"seed":1,"name":"run","note":null,"limit":null,"shuffle":null,)"
            R"("inner":{"lr":1e-06,"fused":false}}})");
  EXPECT_EQ(f.table.get("optimizer.lr"), 0.5);
}

TEST(Table, DumpsReadableYaml) {
  OptimizerOptions optimizer;
  OptionTable table;
  table.section("optimizer", "O.", optimizer);
  EXPECT_EQ(table.dump_yaml("resolved\nfrom run.yaml"),
            "# resolved\n# from run.yaml\noptimizer:\n  lr: 1e-06\n  fused: false\n");
  EXPECT_EQ(OptionTable().dump_yaml(""), "{}\n");
}

TEST(Table, DocumentsItselfAsText) {
  const std::string help = Fixture().table.help();
  EXPECT_TRUE(
      help.starts_with("rollout: How completions are sampled.\n"
                       "  rollout.samples_per_prompt=8\n"
                       "      Completions sampled for each prompt. Must be an integer at least 1.\n"))
      << help;
  EXPECT_TRUE(contains(help, "\n\noptimizer: How weights change.\n  optimizer.lr=1e-06\n"));
  EXPECT_TRUE(contains(help, "  rollout.delta=null\n"));
  const Fixture f;
  for (const Option& option : f.table.options()) EXPECT_TRUE(contains(help, "\n  " + option.path + "="));
}

TEST(Table, DocumentsItselfAsMarkdown) {
  const std::string text = Fixture().table.markdown();
  EXPECT_TRUE(
      text.starts_with("## rollout\n\nHow completions are sampled.\n\n| key | default | value | meaning |\n"
                       "| --- | --- | --- | --- |\n"
                       "| `rollout.samples_per_prompt` | `8` | an integer at least 1 | Completions sampled for "
                       "each prompt. |\n"))
      << text;
  EXPECT_TRUE(contains(text,
                       "| `rollout.mixture` | `[0.5, 0.5]` | a non-empty list of numbers, each at least 0 | "
                       "Shares of a\\|b. |\n"));
}

TEST(NearestName, CountsEdits) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
  EXPECT_EQ(edit_distance("ca", "abc"), 3u);  // restricted: swapped characters are not edited again
  EXPECT_EQ(edit_distance("same", "same"), 0u);
  for (const auto& [typed, expected] :
       {std::pair{"temprature", "temperature"}, {"opt", "optimizer"}, {"TOP-K", "top_k"}})
    EXPECT_TRUE(is_misspelling_of(typed, expected)) << typed;
  for (const auto& [typed, other] : {std::pair{"grad_clip", "dual_clip"},
                                     {"policy", "policy_loss_type"},
                                     {"num_samples", "max_samples"},
                                     {"max_new_tokens", "max_tokens"}})
    EXPECT_FALSE(is_misspelling_of(typed, other)) << typed;
}

TEST(NearestName, IsOnlySuggestedForAMisspelling) {
  const std::vector<std::string> known{"rollout.temperature", "rollout.top_k", "rollout.n", "train.temperature"};
  EXPECT_EQ(nearest_name("rollout.temprature", known), "rollout.temperature");
  EXPECT_EQ(nearest_name("ROLLOUT.TOP-K", known), "rollout.top_k");
  EXPECT_EQ(nearest_name("rollout.m", known), "rollout.n");
  EXPECT_EQ(nearest_name("rollout.zebra", known), std::nullopt);
  EXPECT_EQ(nearest_name("", known), std::nullopt);
  EXPECT_EQ(nearest_name("x", {}), std::nullopt);
}

}  // namespace
}  // namespace keel
