// What must hold on a GPU: the same network, the same noise, the same training loop as on the CPU.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "keel/core/device.h"
#include "keel/model/lm_head.h"
#include "keel/rollout/engine.h"
#include "keel/rollout/sampler.h"
#include "keel/task/tasks.h"
#include "keel/train/annotate.h"
#include "keel/train/critic_training.h"
#include "keel/train/evaluation.h"
#include "keel/train/gradients.h"
#include "keel/train/self_test.h"
#include "keel/train/token_worth.h"

namespace keel {
namespace {

ModelConfig small_shape(int64_t vocabulary) {
  return model_config({.hidden_size = 96, .layers = 3, .heads = 6, .kv_heads = 2, .max_positions = 128}, vocabulary);
}

std::vector<Prompt> problems(const Task& task, int64_t count) {
  const Tokenizer tokenizer = task.tokenizer();
  std::vector<Prompt> prompts;
  for (int64_t i = 0; i < count; ++i) {
    const Problem problem = task.problem(5, i, Split::kTrain);
    prompts.push_back({.id = static_cast<uint64_t>(i),
                       .tokens = tokenizer.encode(problem.prompt),
                       .text = problem.prompt,
                       .source = "chains",
                       .answer = problem.answer});
  }
  return prompts;
}

TEST(Sampling, DrawsTheSameTokensAsTheCpuFromTheSameLogits) {
  const at::Device cuda = open_device("cuda");
  const int64_t rows = 512;
  for (const int64_t vocabulary : {26, 1000, 151936 / 8}) {
    const Tensor logits = at::randn({rows, vocabulary}) * 3;
    const Tensor ids = at::arange(rows, at::kLong) * 7919, positions = at::arange(rows, at::kLong) % 50;
    for (const double temperature : {0.0, 0.7, 1.0}) {
      const Drawn host = sample(logits, temperature, 42, ids, positions);
      const Drawn device = sample(logits.to(cuda), temperature, 42, ids.to(cuda), positions.to(cuda));
      // The two logarithms differ in the last bit, which may decide between two nearly equal candidates.
      const int64_t equal = (host.tokens == device.tokens.cpu()).sum().item<int64_t>();
      EXPECT_GE(equal, rows - 2) << "vocabulary " << vocabulary << ", temperature " << temperature;
      const Tensor same = host.tokens == device.tokens.cpu();
      EXPECT_LT((host.logp - device.logp.cpu()).masked_select(same).abs().max().item<double>(), 2e-5);
    }
  }
}

TEST(Network, GivesTheCpusStatisticsAndGradients) {
  const at::Device cuda = open_device("cuda");
  const auto task = make_task({});
  const Tokenizer tokenizer = task->tokenizer();
  const ModelConfig shape = small_shape(tokenizer.size());
  const CausalLm host = CausalLm::random(shape, 3, at::kCPU), device = CausalLm::random(shape, 3, cuda);
  const std::vector<Prompt> prompts = problems(*task, 6);
  std::vector<std::vector<int32_t>> completions;
  std::vector<TrainingSequence> sequences;
  for (int64_t i = 0; i < 12; ++i) completions.push_back(tokenizer.encode(task->demonstrate(5, i, true).completion));
  for (int64_t i = 0; i < 12; ++i) {
    completions[i].resize(completions[i].size() - i);  // unequal lengths
    sequences.push_back({prompts[i / 2].tokens, completions[i], i / 2});
  }
  const auto backward = [&](const CausalLm& model) {
    const PackedBatch batch = pack(sequences, 1 << 20, model.device())[0];
    accumulate_gradients(model, batch, 1.0, Scope::kToken, [](const TokenStats& stats, int64_t, int64_t) {
      return HeadCoefficients{at::ones_like(stats.logp), {}};
    });
    return token_statistics(model, batch, 1.0).logp.cpu();
  };
  EXPECT_LT((backward(host) - backward(device)).abs().max().item<double>(), 1e-4);
  const auto host_parameters = host.parameters(), device_parameters = device.parameters();
  for (size_t i = 0; i < host_parameters.size(); ++i) {
    const Tensor want = host_parameters[i].value.grad(), got = device_parameters[i].value.grad().cpu();
    EXPECT_LT(((got - want).norm() / want.norm()).item<double>(), 1e-4) << host_parameters[i].name;
  }
}

TEST(Critic, LearnsAsOnTheCpu) {
  const auto task = make_task({});
  const Tokenizer tokenizer = task->tokenizer();
  const std::vector<Prompt> prompts = problems(*task, 4);
  std::vector<Rollout> rollouts(8);
  for (int64_t i = 0; i < 8; ++i) {
    rollouts[i].prompt = i / 2;
    rollouts[i].tokens = tokenizer.encode(task->demonstrate(5, i, true).completion);
    rollouts[i].reward = static_cast<double>(i % 2);
  }
  const std::vector<int64_t> all{0, 1, 2, 3, 4, 5, 6, 7};
  const CriticOptions options{.body = "separate"};
  const auto trained = [&](at::Device device) {
    const CausalLm policy = CausalLm::random(small_shape(tokenizer.size()), 3, device);
    CriticTraining training(Critic::of(policy, options.own_body()), options, {.lr = 1e-3});
    std::vector<Rollout> judged = rollouts;
    for (int64_t update = 0; update < 5; ++update) {
      annotate(judged, prompts, policy, nullptr, &training.critic(), {.value = true}, 1.0, 100);
      const TokenWorth worth = token_worth("gae", judged, options);
      training.accumulate_gradients({prompts, judged, worth.advantages, {}, worth.returns}, all, 100);
      Json row;
      EXPECT_FALSE(training.update(update, row).skipped);
    }
    std::vector<float> values;
    for (const Rollout& rollout : judged) values.insert(values.end(), rollout.values.begin(), rollout.values.end());
    return at::tensor(values);
  };
  const Tensor host = trained(at::kCPU), device = trained(open_device("cuda"));
  EXPECT_GT(host.abs().max().item<double>(), 1e-2);  // or nothing was learned
  EXPECT_LT(((device - host).norm() / host.norm()).item<double>(), 1e-2);
}

TEST(Rollouts, AgreeWithTheTrainersLogProbabilities) {
  const at::Device cuda = open_device("cuda");
  const auto task = make_task({});
  const Tokenizer tokenizer = task->tokenizer();
  const CausalLm model = CausalLm::random(small_shape(tokenizer.size()), 3, cuda);
  const Agreement agreement = sampler_trainer_agreement(model, model, tokenizer, problems(*task, 16),
                                                        {.samples_per_prompt = 8, .max_new_tokens = 33}, 1 << 20);
  EXPECT_GT(agreement.tokens, 128);
  EXPECT_LT(agreement.max_difference, 1e-3);
}

}  // namespace
}  // namespace keel
