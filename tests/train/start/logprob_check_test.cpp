#include "keel/train/start/logprob_check.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "keel/core/files/file.h"
#include "keel/train/run.h"
#include "tests/support/errors.h"
#include "tests/support/reference_model.h"
#include "tests/support/tiny_rollouts.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

const SamplingRequest kEverything{
    .samples_per_prompt = 4, .temperature = 0.8, .max_new_tokens = 12, .seed = 5, .top_k = 5, .hidden_states = true};

LogprobCheck run_check(const ModelWeights& sampler, const ModelWeights& trainer, const SamplingRequest& request) {
  const Tokenizer tokenizer = tiny_tokenizer();
  return check_sampler_matches_trainer({sampler}, trainer, tokenizer, tiny_prompts(), request, 64);
}

TEST(LogprobCheck, FindsOnlyRoundingAtEqualWeights) {
  const ModelWeights model = tiny_model(tiny_config(6, 2, false));
  const LogprobCheck check = run_check(model, model, kEverything);
  EXPECT_GT(check.tokens, 100);
  for (const double difference : {check.max_difference, check.topk_difference, check.total_variation}) {
    EXPECT_GT(difference, 0);  // something was compared
    EXPECT_LT(difference, 1e-5);
  }
  require_logprobs_match(check, 1e-5);
}

TEST(LogprobCheck, FindsOnlyRoundingOnTruncatedSampling) {
  const ModelWeights model = tiny_model(tiny_config(6, 2, false));
  for (const SamplingFilter& filter :
       {SamplingFilter{.top_p = 0.7}, {.top_k = 4}, {.top_k = 8, .top_p = 0.9, .min_p = 0.05}}) {
    SamplingRequest request = kEverything;
    request.filter = filter;
    request.max_kept_bytes = 1 << 30;
    const LogprobCheck check = run_check(model, model, request);
    EXPECT_GT(check.tokens, 100);
    for (const double difference : {check.max_difference, check.topk_difference, check.total_variation}) {
      EXPECT_GT(difference, 0);
      EXPECT_LT(difference, 1e-5);
    }
    request.max_kept_bytes = 0;  // without the sets the trainer has another distribution
    EXPECT_GT(run_check(model, model, request).max_difference, 1e-2);
  }
}

TEST(LogprobCheck, ComparesOnlyRecordedStatistics) {
  const ModelWeights model = tiny_model(tiny_config(6, 2, false));
  SamplingRequest request = kEverything;
  request.top_k = 0;
  request.hidden_states = false;
  const LogprobCheck check = run_check(model, model, request);
  EXPECT_GT(check.max_difference, 0);
  EXPECT_EQ(check.topk_difference, 0);
  EXPECT_EQ(check.total_variation, 0);
}

TEST(LogprobCheck, EveryStatisticDetectsDifferentWeights) {
  const ModelWeights sampler = tiny_model(tiny_config(6, 2, false)), trainer = copy_of(sampler);
  trainer.head().value().mul_(1.2);
  const LogprobCheck check = run_check(sampler, trainer, kEverything);
  EXPECT_GT(check.max_difference, 1e-3);
  EXPECT_GT(check.topk_difference, 1e-3);
  EXPECT_GT(check.total_variation, 1e-3);
}

TEST(LogprobCheck, LimitsTheMeanInBf16AndFp16) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    ModelWeights model = tiny_model(tiny_config(6, 2, false));
    model.set_compute_type(type);
    const LogprobCheck check = run_check(model, model, kEverything);
    EXPECT_GT(check.max_difference, 1e-5);  // more than float32 has
    EXPECT_GT(check.mean_difference, 0);
    EXPECT_LT(check.mean_difference, 0.01);
    EXPECT_LT(check.mean_difference, check.max_difference);
    require_logprobs_match(check, 0, type);
  }
  const LogprobCheck far{.tokens = 7, .mean_difference = 0.02, .max_difference = 0.4};
  EXPECT_THAT(error_of(4, [&] { require_logprobs_match(far, 0, at::kBFloat16); }),
              HasSubstr("the mean of |pi - mu| is 0.02 over 7 tokens, the limit is 0.01"));
  EXPECT_THAT(logprob_check_warning(far, at::kHalf).value(), HasSubstr("differs by 4.0e-01"));
  EXPECT_FALSE(logprob_check_warning({.tokens = 7, .max_difference = 0.3}, at::kHalf));
  EXPECT_FALSE(logprob_check_warning(far, at::kFloat));
}

TEST(LogprobCheck, StopsTheRunAndNamesTheStatisticAboveTheLimit) {
  const auto message = [](const LogprobCheck& check, double limit) {
    return error_of(4, [&] { require_logprobs_match(check, limit); });
  };
  require_logprobs_match({.tokens = 7, .max_difference = 1e-3, .topk_difference = 1e-3, .total_variation = 1e-3}, 1e-3);
  require_logprobs_match({.tokens = 7, .mean_difference = 1, .max_difference = 1e-4}, 0);
  EXPECT_THAT(message({.tokens = 7, .max_difference = 1.1e-4}, 0), HasSubstr("the limit is 0.0001"));
  EXPECT_THAT(message({.tokens = 7, .max_difference = 0.5}, 1e-3),
              HasSubstr("the maximum of |pi - mu| is 0.5 over 7 tokens, the limit is 0.001"));
  EXPECT_THAT(message({.tokens = 7, .topk_difference = 0.25}, 1e-3), HasSubstr("top-K tokens is 0.25"));
  EXPECT_THAT(message({.tokens = 7, .total_variation = 0.125}, 1e-3), HasSubstr("total variation"));
}

/// Returns the output of a run without steps.
std::string output_of_start(const std::string& method) {
  Config config = tiny_run(method);
  config.train.steps = 0;
  config.eval.prompts = 0;
  std::FILE* file = std::tmpfile();
  {
    Console console(file);
    EXPECT_EQ(Run::start(config, /*replace=*/true, console)->run(), ExitCode::kDone);
  }
  std::string text(static_cast<size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  remove_tree(config.run.dir);
  return text;
}

TEST(LogprobCheck, ComparesWhatTheMethodOfTheRunRequires) {
  const std::string plain = output_of_start("dppo_tv");
  EXPECT_THAT(plain, HasSubstr("self-test: sampler and trainer agree on "));
  EXPECT_THAT(plain, Not(HasSubstr("top-K")));
  EXPECT_THAT(output_of_start("dppo_topk_kl"), HasSubstr(", of the top-K tokens "));
  EXPECT_THAT(output_of_start("dppo_full_tv"), HasSubstr(", maximum total variation "));
}

}  // namespace
}  // namespace keel
