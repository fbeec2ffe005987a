#include "keel/task/chains.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "keel/core/error.h"
#include "keel/core/options/options.h"
#include "keel/task/task_table.h"
#include "libs/hftext/tests/parity_rows.h"

namespace keel {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TaskOptions preset(const std::string& name) {
  for (const TaskPreset& row : task_table().at(0).presets) {
    if (row.name == name) return row.options;
  }
  throw std::runtime_error("no preset " + name);
}

/// Independent arithmetic in the widest type, with a non-negative modulo.
int64_t evaluate(int64_t a, const std::string& op, int64_t b, int64_t modulus) {
  const int64_t value = op == "+" ? a + b : op == "-" ? a - b : a * b;
  return (value % modulus + modulus) % modulus;
}

struct ParsedStep {
  std::string word;
  bool right;
};

/// Reads "word a op b = c ;" n times and "ANS c <eos>", expecting the problem's operands and a running value.
std::vector<ParsedStep> parse(const Demonstration& demonstration, const TaskOptions& options) {
  const std::vector<std::string> prompt = split(demonstration.problem.prompt);
  const std::vector<std::string> words = split(demonstration.completion);
  EXPECT_EQ(prompt.size(), 2u * options.steps + 3);
  EXPECT_EQ(words.size(), 7u * options.steps + 3);
  EXPECT_EQ(prompt.front(), "<bos>");
  EXPECT_EQ(prompt.back(), "=");
  std::vector<ParsedStep> steps;
  std::string running = prompt[1];
  int64_t answer = std::stoll(prompt[1]);
  for (int64_t i = 0; i < options.steps; ++i) {
    const std::string* w = &words[7 * i];
    EXPECT_EQ(w[1], running);
    EXPECT_EQ(w[2], prompt[2 + 2 * i]);
    EXPECT_EQ(w[3], prompt[3 + 2 * i]);
    EXPECT_EQ(w[4] + w[6], "=;");
    answer = evaluate(answer, w[2], std::stoll(w[3]), options.modulus);
    const int64_t right = evaluate(std::stoll(w[1]), w[2], std::stoll(w[3]), options.modulus);
    steps.push_back({w[0], w[5] == std::to_string(right)});
    running = w[5];
  }
  EXPECT_EQ(words[7 * options.steps], "ANS");
  EXPECT_EQ(words[7 * options.steps + 1], running);
  EXPECT_EQ(words.back(), "<eos>");
  EXPECT_EQ(demonstration.problem.answer, Json(answer));
  return steps;
}

struct Rate {
  int64_t wrong = 0, total = 0;
  void add(bool right) {
    wrong += right ? 0 : 1;
    ++total;
  }
};

/// Expects a binomial count to be within four standard deviations.
void expect_rate(const Rate& rate, double expected) {
  ASSERT_GT(rate.total, 1000);
  const double n = static_cast<double>(rate.total);
  EXPECT_NEAR(rate.wrong / n, expected, 4 * std::sqrt(expected * (1 - expected) / n)) << "of " << rate.total;
}

double chi_square(const std::vector<int64_t>& counts, const std::vector<double>& probabilities) {
  int64_t total = 0;
  for (int64_t count : counts) total += count;
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * static_cast<double>(total);
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

void expect_refused(const TaskOptions& options, const std::vector<std::string>& pieces) {
  try {
    make_task(options);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadConfiguration);
    for (const std::string& piece : pieces) {
      EXPECT_THAT(std::string(error.what()), testing::HasSubstr(piece));
    }
  }
}

TEST(Chain, HasTheValueComputedByHand) {
  // ((3 + 4) - 1) * 2 = 12 = 2 mod 5, from left to right: multiplication has no precedence.
  const Chain chain{3, {{'+', 4}, {'-', 1}, {'*', 2}}};
  EXPECT_EQ(chain_value(chain, 5), 2);
  EXPECT_EQ(chain_value(chain, 13), 12);
  EXPECT_EQ(chain_prompt(chain), "<bos> 3 + 4 - 1 * 2 =");
  EXPECT_EQ(chain_value({0, {{'-', 6}}}, 7), 1);
  EXPECT_EQ(chain_value({9999, {{'*', 9999}}}, 10000), 1);
  EXPECT_EQ(chain_value({1, {{'-', 1}, {'-', 1}, {'+', 1}}}, 2), 0);
}

// The texts come from an independent Python implementation with unbounded integers.
TEST(Chains, MatchTheProblemsOfAnIndependentImplementation) {
  const ChainsTask task(preset("Q5"));
  const auto expect = [](const Problem& problem, const char* prompt, int answer) {
    EXPECT_EQ(problem.prompt, prompt);
    EXPECT_EQ(problem.answer, Json(answer));
  };
  expect(task.problem(7, 0, Split::kTrain), "<bos> 2 - 3 + 2 - 0 - 1 =", 0);
  expect(task.problem(7, 1, Split::kTrain), "<bos> 3 * 0 * 1 - 3 + 4 =", 1);
  expect(task.problem(7, 2, Split::kTrain), "<bos> 2 * 2 - 2 - 0 * 0 =", 0);
  expect(task.problem(7, 0, Split::kHeldOut), "<bos> 0 + 3 + 0 - 4 - 3 =", 1);
  const uint64_t seed = (uint64_t{1} << 40) + 1, index = uint64_t{1} << 33;
  expect(ChainsTask(preset("T1")).problem(seed, index, Split::kTrain), "<bos> 1 + 8 + 11 - 8 - 5 + 0 + 6 =", 0);
}

TEST(Chains, MatchTheDemonstrationsOfAnIndependentImplementation) {
  const ChainsTask task(preset("Q5"));
  EXPECT_EQ(task.demonstrate(7, 3, false).problem.prompt, "<bos> 4 - 2 + 4 + 3 - 2 =");
  EXPECT_EQ(task.demonstrate(7, 3, false).completion,
            "check 4 - 2 = 2 ; so 2 + 4 = 1 ; verify 1 + 3 = 4 ; so 4 - 2 = 2 ; ANS 2 <eos>");
  EXPECT_EQ(task.demonstrate(7, 3, true).problem.prompt, "<bos> 4 - 2 + 4 + 3 - 2 =");
  EXPECT_EQ(task.demonstrate(7, 3, true).completion,
            "check 4 - 2 = 2 ; so 2 + 4 = 4 ; verify 4 + 3 = 2 ; so 2 - 2 = 0 ; ANS 0 <eos>");
  EXPECT_EQ(ChainsTask(preset("T2")).demonstrate(1, 2, true).completion,
            "so 1 - 0 = 0 ; so 0 - 1 = 12 ; so 12 - 2 = 10 ; hence 10 * 3 = 4 ; so 4 + 8 = 10 ; so 10 * 12 = 3 ; "
            "ANS 3 <eos>");
}

TEST(Chains, DependOnSeedAndIndexOnly) {
  const ChainsTask one(preset("T1")), two(preset("T1"));
  std::set<std::string> prompts;
  for (uint64_t index = 0; index < 200; ++index) {
    const std::string prompt = one.problem(3, index, Split::kTrain).prompt;
    EXPECT_EQ(prompt, two.problem(3, index, Split::kTrain).prompt);
    EXPECT_EQ(one.demonstrate(3, index, true).completion, two.demonstrate(3, index, true).completion);
    EXPECT_NE(prompt, one.problem(4, index, Split::kTrain).prompt);
    EXPECT_NE(prompt, one.demonstrate(3, index, true).problem.prompt);  // the streams differ
    prompts.insert(prompt);
  }
  EXPECT_EQ(prompts.size(), 200u);
}

TEST(Chains, NoiseFreeDemonstrationsGetRewardOne) {
  for (const TaskPreset& row : task_table().at(0).presets) {
    const std::unique_ptr<Task> task = make_task(row.options);
    for (uint64_t index = 0; index < 2000; ++index) {
      const Demonstration demonstration = task->demonstrate(1, index, /*noisy=*/false);
      for (const ParsedStep& step : parse(demonstration, row.options)) ASSERT_TRUE(step.right) << row.name;
      ASSERT_EQ(task->check(demonstration.problem, demonstration.completion), 1) << demonstration.completion;
    }
  }
}

TEST(Chains, HaveTheDefinedLengthsInTokens) {
  for (const TaskPreset& row : task_table().at(0).presets) {
    const std::unique_ptr<Task> task = make_task(row.options);
    const Tokenizer tokenizer = task->tokenizer();
    const int64_t n = row.options.steps;
    EXPECT_EQ(tokenizer.size(), 9 + row.options.modulus + row.options.words) << row.name;
    EXPECT_EQ(task->max_completion_tokens(), 7 * n + 5);
    for (uint64_t index = 0; index < 100; ++index) {
      const Demonstration demonstration = task->demonstrate(0, index, /*noisy=*/true);
      const std::vector<int32_t> prompt = tokenizer.encode(demonstration.problem.prompt);
      const std::vector<int32_t> completion = tokenizer.encode(demonstration.completion);
      EXPECT_EQ(static_cast<int64_t>(prompt.size()), 2 * n + 3);
      EXPECT_EQ(static_cast<int64_t>(completion.size()), 7 * n + 3);
      EXPECT_EQ(prompt.front(), tokenizer.bos_id());
      EXPECT_EQ(completion.back(), tokenizer.eos_id());
      EXPECT_EQ(tokenizer.decode(completion, /*skip_special=*/false), demonstration.completion);
    }
  }
}

TEST(Chains, HaveTheVocabularyInTheDocumentedOrder) {
  const Tokenizer tokenizer = ChainsTask(preset("Q5")).tokenizer();
  std::vector<int32_t> ids(26);
  for (int32_t id = 0; id < 26; ++id) ids[id] = id;
  EXPECT_EQ(
      tokenizer.decode(ids, false),
      "<pad> <bos> <eos> = ; ANS + - * 0 1 2 3 4 so then next thus now hence and also carefully check verify first");
}

TEST(Chains, HaveTheCarefulWordsBeforeTheLastWord) {
  const ChainsTask task(preset("Q5"));
  for (int64_t rank = 0; rank < 12; ++rank) EXPECT_EQ(task.is_careful(rank), rank >= 8 && rank <= 10) << rank;
  const TaskOptions many{.words = 64, .careful = 12};
  const ChainsTask large(many);
  EXPECT_EQ(std::set<std::string>(large.words().begin(), large.words().end()).size(), 64u);
  const ChainsTask none(TaskOptions{.words = 64, .careful = 0});
  for (int64_t rank = 0; rank < 64; ++rank) EXPECT_FALSE(none.is_careful(rank));
  EXPECT_EQ(none.tokenizer().size(), 9 + 5 + 64);
}

TEST(Chains, SupportAVocabularyOfThousandsOfWords) {
  const ChainsTask task(TaskOptions{.modulus = 7, .words = 4000, .careful = 3});
  const std::vector<std::string>& words = task.words();
  EXPECT_EQ(std::set<std::string>(words.begin(), words.end()).size(), 4000u);
  EXPECT_EQ(words[63], "eventually");
  EXPECT_EQ(words[64], "word65");
  EXPECT_EQ(words[3995], "word3996");
  EXPECT_EQ(words[3996], "carefully");
  EXPECT_EQ(words[3999], "word3997");  // the last plain word, after the careful ones
  EXPECT_EQ(task.tokenizer().size(), 9 + 7 + 4000);
  // A rare word is one token, too.
  const Tokenizer tokenizer = task.tokenizer();
  EXPECT_EQ(tokenizer.encode("word3996 1 + 2 = 3 ;").size(), 7u);
}

TEST(Chains, UseWordsWithZipfFrequencies) {
  const TaskOptions options = preset("T1");
  const ChainsTask task(options);
  std::map<std::string, int64_t> rank;
  for (const std::string& word : task.words()) rank.emplace(word, rank.size());
  std::vector<int64_t> counts(24);
  for (uint64_t index = 0; index < 20000; ++index) {
    for (const ParsedStep& step : parse(task.demonstrate(5, index, true), options)) ++counts[rank.at(step.word)];
  }
  double harmonic = 0;
  for (int r = 1; r <= 24; ++r) harmonic += 1.0 / r;
  std::vector<double> probabilities;
  for (int r = 1; r <= 24; ++r) probabilities.push_back(1.0 / (r * harmonic));
  EXPECT_LT(chi_square(counts, probabilities), 49.73);  // the 99.9 % point of chi-square with 23 degrees of freedom
}

TEST(Chains, DrawNumbersAndOperatorsUniformly) {
  const ChainsTask task(preset("Q7"));
  std::vector<int64_t> starts(7), operands(7), operators(3);
  for (uint64_t index = 0; index < 20000; ++index) {
    const std::vector<std::string> words = split(task.problem(11, index, Split::kTrain).prompt);
    ++starts[std::stoi(words[1])];
    for (size_t i = 2; i + 1 < words.size(); i += 2) {
      ++operators[std::string("+-*").find(words[i])];
      ++operands[std::stoi(words[i + 1])];
    }
  }
  // The 99.9 % points of chi-square with 6 and 2 degrees of freedom.
  EXPECT_LT(chi_square(starts, std::vector<double>(7, 1.0 / 7)), 22.46);
  EXPECT_LT(chi_square(operands, std::vector<double>(7, 1.0 / 7)), 22.46);
  EXPECT_LT(chi_square(operators, std::vector<double>(3, 1.0 / 3)), 13.82);
}

TEST(Chains, MakeMistakesAtTheSetRateAndFewAfterCarefulWords) {
  const TaskOptions options = preset("Q5");
  const ChainsTask task(options);
  const std::set<std::string> careful = {"carefully", "check", "verify"};
  Rate plain_rate, careful_rate;
  for (uint64_t index = 0; index < 50000; ++index) {
    for (const ParsedStep& step : parse(task.demonstrate(9, index, true), options)) {
      (careful.contains(step.word) ? careful_rate : plain_rate).add(step.right);
    }
  }
  // A random result is right one time in five.
  expect_rate(plain_rate, 0.4 * 4 / 5);
  expect_rate(careful_rate, 0.01 * 4 / 5);
}

TEST(Chains, WithModeTheFirstWordDeterminesTheErrorRate) {
  const TaskOptions options = preset("T2");
  const ChainsTask task(options);
  const std::set<std::string> careful = {"carefully", "check", "verify", "slowly", "precisely", "exactly"};
  std::map<std::pair<bool, bool>, Rate> rates;  // key: whether the first word, and the word of the step, is careful
  for (uint64_t index = 0; index < 60000; ++index) {
    const std::vector<ParsedStep> steps = parse(task.demonstrate(2, index, true), options);
    for (const ParsedStep& step : steps) {
      rates[{careful.contains(steps[0].word), careful.contains(step.word)}].add(step.right);
    }
  }
  for (const bool step_careful : {false, true}) {
    expect_rate(rates[std::pair(true, step_careful)], 0.01 * 12 / 13);
    expect_rate(rates[std::pair(false, step_careful)], 0.4 * 12 / 13);
  }
}

TEST(Chains, NoisyDemonstrationsWithErrorZeroHaveNoMistakes) {
  const ChainsTask task(TaskOptions{.error = 0});
  for (uint64_t index = 0; index < 2000; ++index) {
    EXPECT_EQ(task.demonstrate(0, index, true).completion, task.demonstrate(0, index, false).completion);
  }
}

TEST(Chains, TrainingHasNoHeldOutProblem) {
  const ChainsTask task(preset("Q5"));  // 253,125 problems: draws repeat often
  std::set<std::string> training, held_out;
  for (uint64_t index = 0; index < 50000; ++index) {
    training.insert(task.problem(0, index, Split::kTrain).prompt);
    training.insert(task.demonstrate(1, index, true).problem.prompt);
    held_out.insert(task.problem(index % 2 ? 0 : 12345, index, Split::kHeldOut).prompt);
  }
  for (const std::string& prompt : held_out) ASSERT_FALSE(training.contains(prompt)) << prompt;
  EXPECT_GT(training.size(), 50000u);
  EXPECT_GT(held_out.size(), 20000u);
}

TEST(Chains, HoldOutOneProblemInEight) {
  Rate kept;
  for (int64_t start = 0; start < 40; ++start) {
    for (int64_t operand = 0; operand < 2000; ++operand) {
      kept.add(chain_split({start, {{'+', operand}, {'*', start}}}) == Split::kTrain);
    }
  }
  expect_rate(kept, 1.0 / 8);
}

TEST(Chains, RewardOnlyTheRightAnswerAtTheEnd) {
  const ChainsTask task(preset("T1"));
  const Problem problem{"<bos> 3 + 9 =", 12};
  const auto reward = [&](std::string_view completion) { return task.check(problem, completion); };
  EXPECT_EQ(reward("so 3 + 9 = 12 ; ANS 12 <eos>"), 1);
  EXPECT_EQ(reward("ANS 12 <eos>"), 1);
  EXPECT_EQ(reward("so so = ANS 1 ANS 12 <eos>"), 1);  // steps are neither rewarded nor penalised
  for (const char* start :
       {"", "12", "ANS", "ANS 11", "ANS 2", "ANS 112", "ANS 012", "ANS +12", "ANS 12.0", "ANS 12 12", "ANS 12 ;",
        "ANS  12", "ans 12", "XANS 12", "ANS 12 <pad>", "ANS 12 <eos>", "ANS -1", "ANS 99999999999999999999999"})
    EXPECT_EQ(reward(std::string(start) + " <eos>"), 0) << start;
  for (const char* wrong :
       {"", " ", "<eos>", "ANS 12", "ANS 12 <eos> ", "ANS 12 <eos> so", "ANS 12<eos>", "ANS 12 <pad>",
        "so 1 <eos> ANS 12 <eos>", "\xFF\xFE ANS", "ANS 12 <eos>\n", "{\"answer\": 12}"})
    EXPECT_EQ(reward(wrong), 0) << wrong;
  EXPECT_EQ(reward(std::string_view("ANS 12 <eos>\0", 13)), 0);
  EXPECT_EQ(reward(std::string(1 << 20, ' ')), 0);
  EXPECT_EQ(task.check({"", nullptr}, "ANS 12 <eos>"), 0);
  EXPECT_EQ(task.check({"", "12"}, "ANS 12 <eos>"), 0);
}

TEST(Chains, ExtractTheAnswerThatIsChecked) {
  const ChainsTask task(preset("T1"));
  EXPECT_EQ(task.answer("so 3 + 9 = 12 ; ANS 12 <eos>"), "12");
  EXPECT_EQ(task.answer("ANS 1 ANS so <eos>"), "so");  // an answer for voting, though not a number
  for (const char* none : {"", "<eos>", "ANS 12", "12 <eos>", "ANS <eos>", "ANS 12<eos>", "ANS 1 2 <eos>",
                           "XANS 12 <eos>", "ANS 12 <eos> <eos>", "ANS 12 <eos> so"})
    EXPECT_EQ(task.answer(none), "") << none;
}

TEST(Chains, RejectInvalidOptions) {
  expect_refused({.modulus = 1}, {"task.modulus is 1", "2 to"});
  expect_refused({.modulus = 10001}, {"task.modulus is 10001", "10000"});
  expect_refused({.steps = 0}, {"task.steps is 0"});
  expect_refused({.words = 0, .careful = 0}, {"task.words is 0"});
  expect_refused({.words = 10001}, {"task.words is 10001", "10000"});
  expect_refused({.words = 3, .careful = 3}, {"task.careful is 3", "task.words is 3"});
  expect_refused({.words = 20, .careful = 13}, {"task.careful is 13", "12"});
  expect_refused({.careful = -1}, {"task.careful is -1"});
  expect_refused({.error = 1.5}, {"task.error is 1.5"});
  expect_refused({.error = std::numeric_limits<double>::quiet_NaN()}, {"task.error"});
  expect_refused({.name = "mazes"}, {"\"mazes\"", "chains"});
}

TEST(Chains, HaveBothSplitsAtTheSmallestSizes) {
  for (int64_t modulus = 2; modulus < 8; ++modulus) {
    const ChainsTask task(TaskOptions{.modulus = modulus, .steps = 1});
    std::set<std::string> train, held_out;
    for (uint64_t index = 0; index < 5000; ++index) {
      train.insert(task.problem(0, index, Split::kTrain).prompt);
      held_out.insert(task.problem(0, index, Split::kHeldOut).prompt);
    }
    EXPECT_GE(held_out.size(), 1u) << modulus;
    EXPECT_EQ(static_cast<int64_t>(train.size() + held_out.size()), 3 * modulus * modulus);  // all problems were drawn
  }
}

TEST(TaskTable, HasThePresetsOfTheStudies) {
  const TaskOptions t2 = preset("T2"), q7 = preset("Q7"), q5 = preset("Q5"), defaults;
  EXPECT_EQ(task_names().at(0), "chains");
  EXPECT_EQ(task_table().at(0).presets.size(), 4u);
  EXPECT_TRUE(t2.modulus == 13 && t2.steps == 6 && t2.words == 24 && t2.careful == 6 && t2.error == 0.4 && t2.mode);
  EXPECT_TRUE(q7.modulus == 7 && q7.steps == 4 && q7.words == 12 && q7.careful == 3 && q7.error == 0.3 && !q7.mode);
  EXPECT_TRUE(q5.modulus == defaults.modulus && q5.steps == defaults.steps && q5.words == defaults.words &&
              q5.careful == defaults.careful && q5.error == defaults.error && q5.mode == defaults.mode);
}

TEST(TaskOptions, HaveDefaultsWithinTheirLimits) {
  TaskOptions options;
  OptionTable table;
  table.section("task", "The built-in task.", options);
  EXPECT_NO_THROW(table.load({}));
  EXPECT_EQ(table.options().size(), 7u);
  EXPECT_EQ(table.get("task.name"), Json("chains"));
  EXPECT_EQ(table.get("task.error"), Json(0.4));
  EXPECT_FALSE(table.find("task.modulus")->limits.allow(1.0));
}

// Run with KEEL_PARITY_FOLDER set, then: tests/parity/tokenizer_parity.py FOLDER/chains.
TEST(ChainsParity, WritesAFolderForTheTokenizerParityScript) {
  const char* folder = std::getenv("KEEL_PARITY_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "KEEL_PARITY_FOLDER is not set";
  const ChainsTask task(preset("T1"));
  std::vector<std::string> texts;
  for (uint64_t index = 0; index < 200; ++index) {
    const Demonstration demonstration = task.demonstrate(0, index, true);
    texts.push_back(demonstration.problem.prompt + " " + demonstration.completion);
  }
  write_parity_folder(std::filesystem::path(folder) / "chains", task.tokenizer(), texts);
}

}  // namespace
}  // namespace keel
