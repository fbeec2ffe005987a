#include "keel/record/report/report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "keel/core/error.h"
#include "tests/record/occurrences.h"

namespace keel {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

RunData small_run(const std::string& name, int steps = 3) {
  RunData run;
  run.name = name;
  run.used = {{"objective.method", "dppo_tv"}, {"task.name", "countdown"}, {"run.seed", "1"}};
  run.metrics.push_back({"sft", 0, {{"sft/loss", 2.0}}});
  run.metrics.push_back(
      {"eval", 0, {{"eval/accuracy", 0.25}, {"eval/low", 0.21}, {"eval/high", 0.29}, {"eval/count", 400}}});
  for (int step = 1; step <= steps; ++step) {
    const double wave = std::sin(step * 1.3);
    run.metrics.push_back({"rl",
                           step,
                           {{"reward/mean", 0.5 + 0.2 * wave},
                            {"policy/entropy", 0.9},
                            {"trust_region/masked", 0.018},
                            {"mismatch/abs_prob_mean", 2e-7},
                            {"throughput/rollout_tokens_per_s", 12345.0},
                            {"time/rollout", 2.0},
                            {"completion/length_mean", 20 + wave},
                            {"time/step", 30.0},
                            {"my/own_metric", 17.5}}});
  }
  run.metrics.push_back(
      {"eval", steps, {{"eval/accuracy", 0.75}, {"eval/low", 0.71}, {"eval/high", 0.79}, {"eval/count", 400}}});
  return run;
}

Sample token_sample() {
  Sample sample;
  sample.phase = "rl";
  sample.step = 2;
  sample.prompt = "1 + 1 = ?";
  sample.reward = 1;
  sample.advantage = -0.5;
  sample.finish = "length";
  sample.tokens = {"so", "2", "\n"};
  sample.behavior_logp = {std::log(0.5), std::log(0.25), 0};
  sample.logp = {std::log(0.6), std::log(0.75), 0};
  sample.coefficient = {1.2, 0, -0.6};
  sample.kept = {true, false, true};
  sample.divergence = {0.1, 0.5, 0};
  sample.threshold = {0.2, 0.2, 0.2};
  return sample;
}

TEST(Report, OmitsAMissingInterval) {
  RunData run = small_run("quick"), other = small_run("other");
  for (MetricRow& row : run.metrics) row.values.erase("eval/low"), row.values.erase("eval/high");
  EXPECT_TRUE(has(render_report({run}), ">400 problems<"));
  const std::string both = render_report({run, other});
  EXPECT_TRUE(has(both, "71–79 %"));
  EXPECT_FALSE(has(both, "75–75 %"));
}

TEST(Report, ShowsTheHeadlineNumbersOfARun) {
  const std::string html = render_report({small_run("quick")});
  EXPECT_TRUE(has(html, "<h1>quick</h1>"));
  EXPECT_TRUE(has(html, "25.0 % →</span> 75.0 %"));
  EXPECT_TRUE(has(html, "95 % intervals 21–29 % → 71–79 %, 400 problems"));
  EXPECT_TRUE(has(html, "1.8 %"));
  EXPECT_TRUE(has(html, "2×10<sup>−7</sup>"));
  EXPECT_TRUE(has(html, "12,345"));
  EXPECT_TRUE(has(html, "1 min 30 s"));
  EXPECT_TRUE(has(html, "<b>dppo_tv</b>"));
  EXPECT_TRUE(has(html, "<code>my/own_metric</code>"));  // unknown metrics are listed
  EXPECT_FALSE(has(html, ">nan"));
}

TEST(Report, UsesNoNetworkAndForbidsIt) {
  const std::string html = render_report({small_run("quick")});
  EXPECT_TRUE(has(html, "content=\"default-src 'none'; style-src 'sha256-"));
  EXPECT_TRUE(has(html, "; script-src 'sha256-"));  // tests/cli/what_a_run_leaves_test.py compares the hashes
  for (const char* forbidden : {"unsafe-inline", " style=", "javascript:"})
    EXPECT_FALSE(has(html, forbidden)) << forbidden;
  for (const char* forbidden : {"src=", "<link", "@import", "url(", "https://"})
    EXPECT_FALSE(has(html, forbidden)) << forbidden;
  // The one address in the page is the name of the SVG namespace, which is never fetched.
  EXPECT_EQ(occurrences(html, "http://"), occurrences(html, "http://www.w3.org/2000/svg"));
}

TEST(Report, EscapesTextOfModels) {
  RunData run = small_run("<b>name</b>");
  run.config = "x: </pre><script>alert(1)</script>\n";
  run.metrics[2].values["</code><script>"] = 1;
  Sample sample = token_sample();
  sample.prompt = "</pre><script>alert(1)</script>";
  sample.tokens = {"</script>", "<img src=x onerror=alert(1)>", "\xE2\x80\xAEgnp"};
  run.samples.push_back(sample);
  Sample plain;
  plain.phase = "eval";
  plain.completion = "\" onmouseover='x' \x1b[31m <img onerror=1> \xE2\x80\xAE";
  run.samples.push_back(plain);
  const std::string html = render_report({run, small_run("other")}) + render_report({run});
  EXPECT_EQ(occurrences(html, "<script>"), 2u);  // one per page
  EXPECT_EQ(occurrences(html, "</script>"), 2u);
  EXPECT_FALSE(has(html, "<img"));
  EXPECT_FALSE(has(html, "<b>name"));
  EXPECT_FALSE(has(html, "\xE2\x80\xAE"));
  EXPECT_FALSE(has(html, "\x1b"));
  EXPECT_TRUE(has(html, "\\u202egnp"));
  EXPECT_TRUE(has(html, "&lt;img src=x onerror=alert(1)&gt;"));
  EXPECT_TRUE(has(html, "&quot; onmouseover=&#39;x&#39; \\x1b[31m"));
}

TEST(Report, ShadesTokensByCoefficientAndMarksBlockedOnes) {
  RunData run = small_run("quick");
  run.samples.push_back(token_sample());
  const std::string html = render_report({run});
  // The darkest shade is the 95th percentile of |coefficient|, here of {0.6, 1.2}: 0.6.
  EXPECT_TRUE(has(html,
                  "<span class=\"t u8\" title=\"μ 0.5 · π 0.6 · π/μ 1.2 · divergence 0.1 (threshold 0.2) · "
                  "coefficient +1.2 · kept\">so</span>"));
  EXPECT_TRUE(has(html,
                  "<span class=\"t x\" title=\"μ 0.25 · π 0.75 · π/μ 3 · divergence 0.5 (threshold 0.2) · "
                  "coefficient 0 · blocked by the trust region\">2</span>"));
  EXPECT_TRUE(has(html, "<span class=\"t d8\""));
  EXPECT_TRUE(has(html, ">↵</span><br>"));
  EXPECT_TRUE(has(html, "1 blocked"));
  EXPECT_TRUE(has(html, "μ 0.25 → π 0.75, divergence 0.5 &gt; 0.2"));
  EXPECT_TRUE(has(html, "advantage <b>−0.5</b>"));
  EXPECT_TRUE(has(html, "truncated at the length limit"));
}

TEST(Report, ToleratesArraysShorterThanTheTokens) {
  RunData run = small_run("quick");
  Sample sample = token_sample();
  sample.coefficient.resize(1);
  sample.kept.clear();
  sample.logp.clear();
  sample.divergence = {std::nan(""), 0.5};
  run.samples.push_back(sample);
  EXPECT_TRUE(has(render_report({run}), "title=\"μ 0.25 · divergence 0.5 (threshold 0.2)\">2</span>"));
}

TEST(Report, StaysBelowAMegabyteForTenThousandSteps) {
  RunData run = small_run("long", 10000);
  Sample sample = token_sample();
  for (int i = 0; i < 2000; ++i) {
    sample.tokens.push_back("word");
    for (auto* values :
         {&sample.logp, &sample.behavior_logp, &sample.coefficient, &sample.divergence, &sample.threshold}) {
      values->push_back(-0.123456789);
    }
    sample.kept.push_back(i % 3 != 0);
  }
  sample.prompt = std::string(100000, 'p');
  for (int i = 0; i < 100; ++i) run.samples.push_back(sample);
  const std::string html = render_report({run});
  EXPECT_LT(html.size(), 1000000u);
  EXPECT_TRUE(has(html, "1,763 more tokens"));  // 2,003 tokens less the 240 shown
}

TEST(Report, ComparesSeveralRunsAndTheirSettings) {
  RunData other = small_run("other");
  other.used["objective.method"] = "drpo";
  other.metrics.back().values["eval/accuracy"] = 0.9;
  const std::string html = render_report({small_run("quick"), other});
  EXPECT_TRUE(has(html, "2 runs side by side"));
  EXPECT_TRUE(has(html, "<b>90.0 %</b>"));
  EXPECT_TRUE(has(html, "<code>objective.method</code></th><td>dppo_tv</td><td>drpo</td>"));
  EXPECT_FALSE(has(html, "<code>task.name</code>"));
  EXPECT_TRUE(has(html, "data-name=\"quick\""));
  EXPECT_TRUE(has(html, "data-name=\"other\""));
}

TEST(Report, ShowsAMeanRewardAsANumberAndCountsSkippedRows) {
  RunData run = small_run("quick");
  for (MetricRow& row : run.metrics)
    if (auto accuracy = row.values.extract("eval/accuracy"); !accuracy.empty()) {
      accuracy.key() = "eval/reward";
      row.values.insert(std::move(accuracy));
    }
  run.metrics[1].values["eval/bad_rows"] = 9;  // the first evaluation; the last one counts
  run.metrics[2].values.insert({{"data/too_long", 3}, {"data/max_prompt_tokens", 64}});
  run.metrics[3].values.insert({{"data/too_long", 1}, {"data/bad_rows", 1}});
  const std::string html = render_report({run});
  EXPECT_TRUE(has(html, "Held-out reward, before → after"));
  EXPECT_TRUE(has(html, "<span class=\"before\">0.25 →</span> 0.75"));
  EXPECT_TRUE(has(html, "evaluation reward, 95 % interval"));
  EXPECT_FALSE(has(html, "ccuracy"));
  EXPECT_FALSE(has(html, "75.0 %"));
  EXPECT_TRUE(has(html, "<b>5</b><span>training: 4 prompts longer than 64 tokens, 1 bad row</span>"));
  run.metrics.back().values["eval/bad_rows"] = 2;
  EXPECT_TRUE(has(render_report({run}),
                  "<b>7</b><span>training: 4 prompts longer than 64 tokens, 1 bad row; "
                  "evaluation: 2 bad rows</span>"));
  EXPECT_TRUE(has(render_report({run, run}), "Held-out reward, before"));
  EXPECT_TRUE(has(render_report({run, small_run("other")}), "accuracy or reward"));
}

TEST(Report, WorksForARunWithoutSteps) {
  RunData run;
  run.name = "empty";
  EXPECT_TRUE(has(render_report({run}), "<h1>empty</h1>"));
  EXPECT_THROW(render_report({}), Error);
}

/// A run with the user's model and data, as in used.json.
RunData named_run(const std::string& name, int steps = 3) {
  RunData run = small_run(name, steps);
  run.used = {{"objective.method", "dppo_tv"},
              {"objective.delta_high", "0.15"},
              {"data.files", "train.jsonl"},
              {"model.path", "models/tiny"},
              {"model.type", "qwen2"},
              {"model.layers", "24"},
              {"model.hidden_size", "896"},
              {"model.parameters", "494032768"},
              {"reward.functions", "math, python:f.py"},
              {"run.seed", "1"}};
  return run;
}

std::string header_of(const std::string& html) {
  return html.substr(html.find("<header>"), html.find("</header>") - html.find("<header>"));
}

TEST(Report, ShowsModelDataAndRewards) {
  const std::string header = header_of(render_report({named_run("mine")}));
  for (const char* fact : {"data <b>train.jsonl</b>", "model <b>models/tiny</b>", "family <b>qwen2</b>",
                           "layers <b>24</b>", "hidden size <b>896</b>", "parameters <b>494 M</b>",
                           "reward <b>math, python:f.py</b>", "method <b>dppo_tv</b>", "seed <b>1</b>"})
    EXPECT_TRUE(has(header, fact)) << fact << " is not in " << header;
}

TEST(Report, ShowsSettingsThatChangeTheTraining) {
  RunData run = named_run("mine");
  const char* const chips[] = {"overlong penalty <b>0.5 in the last 4 tokens</b>",
                               "groups of equal rewards <b>dropped, at most 3 batches per step</b>",
                               "truncated completions <b>excluded from updates</b>",
                               "sampler <b>int8 weights, logit noise 0.3, 1 step behind</b>",
                               "model weights <b>random</b>",
                               "moments <b>in 8 bits</b>",
                               "best checkpoint <b>step 3, by eval/accuracy</b>"};
  for (const char* chip : chips) {
    const std::string name(chip, std::string(chip).find(" <b>"));
    EXPECT_FALSE(has(header_of(render_report({run})), name + " <b>")) << name;
  }
  run.used.insert({{"reward.overlong_buffer", "4"},
                   {"reward.overlong_penalty", "0.5"},
                   {"rollout.dynamic_sampling", "true"},
                   {"rollout.max_batches", "3"},
                   {"train.mask_truncated", "true"},
                   {"rollout.staleness", "1"},
                   {"rollout.weights", "int8"},
                   {"rollout.logit_noise", "0.3"},
                   {"model.random_weights", "true"},
                   {"optimizer.moments", "8bit"},
                   {"checkpoint.best_metric", "auto"}});
  for (const int step : {5, 6}) run.metrics.push_back({"eval", step, {{"eval/accuracy", 0.75}, {"eval/count", 400}}});
  const std::string header = header_of(render_report({run}));  // the first of equal evaluations is the best
  for (const char* chip : chips) EXPECT_TRUE(has(header, chip)) << chip << " is not in " << header;
}

TEST(Report, ShowsTheStalenessNextToTheMismatch) {
  RunData behind = named_run("behind");
  behind.used["rollout.staleness"] = "2";
  const std::string html = render_report({behind});
  EXPECT_FALSE(has(html, "equal parameters"));
  EXPECT_TRUE(has(html, "trainer and sampler, before a step's first update, 2 steps behind"));
  EXPECT_TRUE(has(html, "|π − μ| before the first update, mean"));
  EXPECT_FALSE(has(render_report({named_run("mine")}), " behind</"));
  const std::string both = render_report({named_run("mine"), behind});
  EXPECT_EQ(occurrences(both, "</sup>, 2 steps behind</td>"), 1);
}

TEST(Report, ComparesEffectiveSettings) {
  RunData wide = named_run("wide");
  wide.used["objective.delta_high"] = "0.2";
  const std::string html = render_report({named_run("tight"), wide});
  EXPECT_TRUE(has(html, "<code>objective.delta_high</code></th><td>0.15</td><td>0.2</td>"));
}

TEST(Report, IgnoresTheOrderOfTargetModules) {
  RunData one = named_run("one"), other = named_run("other");
  one.used["lora.target_modules"] = "q_proj, v_proj, o_proj";
  other.used["lora.target_modules"] = "o_proj, q_proj, v_proj";
  EXPECT_FALSE(has(render_report({one, other}), "<code>lora.target_modules</code>"));
  other.used["lora.target_modules"] = "q_proj, v_proj, k_proj";
  EXPECT_TRUE(has(render_report({one, other}), "<code>lora.target_modules</code></th><td>o_proj, q_proj, v_proj</td>"));
}

TEST(Report, UsesOneSmoothingWindowForAllRuns) {
  const std::string html = render_report({small_run("short", 100), small_run("long", 1000)});
  EXPECT_GT(occurrences(html, "data-window=\"5\""), 4u);  // 100 steps: a window of 5
  EXPECT_EQ(occurrences(html, "data-window="), occurrences(html, "data-window=\"5\""));
  EXPECT_TRUE(has(html, "moving average over 5 steps"));
  EXPECT_TRUE(has(render_report({small_run("long", 1000)}), "moving average over 41 steps"));
  const std::string begun = render_report({small_run("begun", 10), small_run("long", 1000)});
  EXPECT_FALSE(has(begun, "data-window"));
  EXPECT_FALSE(has(begun, "moving average"));
}

TEST(Report, HasACurveForEachRewardFunction) {
  RunData run = small_run("quick");
  for (MetricRow& row : run.metrics)
    if (row.phase == "rl") row.values.insert({{"reward/function/math", 0.5}, {"reward/function/<b>mine", 0.25}});
  const std::string one = render_report({run});
  EXPECT_TRUE(has(one, "<h3>Reward functions</h3>"));
  EXPECT_TRUE(has(one, "data-name=\"math\""));
  EXPECT_TRUE(has(one, "data-name=\"&lt;b&gt;mine\""));
  const std::string two = render_report({run, small_run("other")});
  EXPECT_TRUE(has(two, "<h3>Reward function math</h3>"));
  EXPECT_TRUE(has(two, "<h3>Reward function &lt;b&gt;mine</h3>"));
  EXPECT_FALSE(has(two, "<b>mine"));
  EXPECT_FALSE(has(render_report({small_run("quick")}), "Reward function"));
}

TEST(Report, DrawsTheLearningRateOnlyIfItChanges) {
  RunData run = small_run("quick");
  for (MetricRow& row : run.metrics)
    if (row.phase == "rl") row.values["optimizer/lr"] = 1e-4;
  EXPECT_FALSE(has(render_report({run}), "<h3>Learning rate</h3>"));
  run.metrics[3].values["optimizer/lr"] = 5e-5;
  const std::string moved = render_report({run});
  EXPECT_EQ(occurrences(moved, "<h3>Learning rate</h3>"), 1u);
  EXPECT_TRUE(has(moved, "policy: from 0.0001 to 0.0001, minimum 5e-5"));
}

TEST(Report, CaptionsEachChart) {
  RunData run = small_run("quick");
  for (MetricRow& row : run.metrics)
    if (row.phase == "rl")
      row.values.insert(
          {{"completion/truncated", 0.1}, {"reward/zero_std_groups", 0.2}, {"trust_region/masked_positive", 0.3}});
  const std::string html = render_report({run, small_run("other")});
  const auto caption = [&](const std::string& title) {
    const size_t at = html.find("<h3>" + title + "</h3><p>");
    if (at == std::string::npos) return std::string("no chart of this title");
    const size_t begin = html.find("<p>", at) + 3;
    return html.substr(begin, html.find("</p>", begin) - begin);
  };
  EXPECT_EQ(caption("Truncated completions"), "Fraction of completions truncated at the length limit.");
  EXPECT_EQ(caption("Groups with equal rewards"),
            "Fraction of groups whose rewards are all equal. They give no gradient.");
  EXPECT_EQ(caption("Blocked tokens with positive advantage"),
            "Fraction of tokens with positive advantage whose update is blocked.");
  EXPECT_EQ(
      caption("Reward"),
      "Mean reward of the completions sampled in each step. Points: fraction of held-out problems solved, with its "
      "95 % interval.");
}

TEST(Report, ShowsTheGoldAnswerOnACard) {
  RunData run = small_run("quick");
  run.samples.push_back(token_sample());
  run.samples.back().answer = "<b>2";
  const std::string html = render_report({run});
  EXPECT_TRUE(has(html, "gold answer <code>&lt;b&gt;2</code>"));
  run.samples.back().answer.clear();
  EXPECT_FALSE(has(render_report({run}), "gold answer <code>"));
}

TEST(Report, ShowsOnlySamplesOfTheLastEvaluation) {
  RunData run = small_run("quick");
  for (const int64_t step : {0, 0, 3, 3}) {
    Sample sample;
    sample.phase = "eval";
    sample.step = step;
    sample.completion = "at " + std::to_string(step);
    run.samples.push_back(sample);
  }
  const std::string html = render_report({run});
  EXPECT_EQ(occurrences(html, "evaluation at step 3"), 2u);
  EXPECT_FALSE(has(html, "evaluation at step 0"));
}

TEST(Report, RemovesTheCommonPrefixOfLongSettings) {
  const std::string folder(120, 'a');
  RunData one = small_run("one"), other = small_run("other");
  one.used = {{"model.path", "/models/" + folder + "/first"}};
  other.used = {{"model.path", "/models/" + folder + "/second"}};
  const std::string html = render_report({one, other});
  EXPECT_TRUE(has(html, "/first</td>"));
  EXPECT_TRUE(has(html, "/second</td>"));
}

TEST(Report, RanksOnlyComparableEvaluations) {
  RunData low = small_run("low"), high = small_run("high"), other = small_run("other"), reward = small_run("reward");
  high.metrics.back().values["eval/accuracy"] = 0.8;
  other.metrics.back().values["eval/accuracy"] = 0.95;
  other.used["task.name"] = "chains";
  for (MetricRow& row : reward.metrics)
    if (row.values.erase("eval/accuracy") > 0) row.values["eval/reward"] = 2.5;
  const std::string html = render_report({low, high, other, reward});
  EXPECT_TRUE(has(html, "<b>80.0 %</b>"));
  for (const char* alone : {"<b>95.0 %</b>", "<b>2.5</b>", "<b>75.0 %</b>"}) EXPECT_FALSE(has(html, alone)) << alone;
  EXPECT_TRUE(has(html, "runs with the same evaluation problems"));
}

TEST(Report, DoesNotRankRunsWithOtherProblemsOrLimits) {
  RunData low = small_run("low"), high = small_run("high");
  high.metrics.back().values["eval/accuracy"] = 0.8;
  EXPECT_TRUE(has(render_report({low, high}), "<b>80.0 %</b>"));
  const auto used = high.used;
  high.used["run.seed"] = "2";
  EXPECT_FALSE(has(render_report({low, high}), "<b>80.0 %</b>"));  // the seed determines the problems of a task
  for (const auto& setting : {std::pair("rollout.max_new_tokens", "24"), {"rollout.stop_strings", "x"}}) {
    high.used = used;
    high.used.insert(setting);
    EXPECT_FALSE(has(render_report({low, high}), "<b>80.0 %</b>")) << setting.first;
  }
  // Rows of files do not depend on the seed.
  low.used = {{"data.files", "a.jsonl"}, {"run.seed", "1"}};
  high.used = {{"data.files", "a.jsonl"}, {"run.seed", "2"}};
  EXPECT_TRUE(has(render_report({low, high}), "<b>80.0 %</b>"));
}

TEST(Report, CountsRlStepsFromOne) {
  RunData plain = small_run("plain"), warmed = small_run("warmed");
  warmed.samples.push_back(token_sample());
  warmed.samples.back().step += 500;
  for (MetricRow& row : warmed.metrics)
    if (row.phase != "sft") row.step += 500;
  count_rl_steps_from_one(plain), count_rl_steps_from_one(warmed);
  for (const std::string& html : {render_report({plain, warmed}), render_report({warmed})}) {
    EXPECT_FALSE(has(html, ">500<") || has(html, ">501<") || has(html, ">503<"));  // ticks of the axis
    EXPECT_TRUE(has(html, "<b>step 2</b>"));                                       // of the sample
    EXPECT_TRUE(has(html, "Steps count RL only"));
  }
}

TEST(Report, AdaptsItsTextToFewAndNoSteps) {
  const std::string html = render_report({small_run("quick")});
  EXPECT_FALSE(has(html, "last ten steps"));
  EXPECT_TRUE(has(html, "mean of all steps"));
  EXPECT_TRUE(has(render_report({small_run("long", 12)}), "last ten steps"));
  EXPECT_FALSE(has(html, "no RL steps yet"));
  EXPECT_TRUE(has(render_report({small_run("begun", 0)}), "The run has no RL steps yet"));
  RunData run = small_run("quick");
  run.samples.push_back(token_sample());
  run.samples.back().advantage = -5.55e-17;
  EXPECT_TRUE(has(render_report({run}), "advantage <b>0</b>"));
}

TEST(Report, HasUniqueIds) {
  RunData run = small_run("quick");
  for (MetricRow& row : run.metrics)
    if (row.phase == "rl") row.values.insert({{"reward/function/a b", 0.5}, {"reward/function/c", 0.25}});
  const std::string html = render_report({run, small_run("other")});
  for (size_t at = 0; (at = html.find(" id=\"", at)) != std::string::npos; ++at) {
    const std::string id = html.substr(at, html.find('"', at + 5) - at + 1);
    EXPECT_EQ(occurrences(html, id), 1u) << id;
  }
}

}  // namespace
}  // namespace keel
