// A GPU has the same network, noise and training loop as the CPU.

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <gtest/gtest.h>

#include "keel/core/tensor/device.h"
#include "keel/evaluation/evaluation.h"
#include "keel/ops/lm_head.h"
#include "keel/ops/next_token_distribution.h"
#include "keel/ops/sampler.h"
#include "keel/rollout/engine.h"
#include "keel/rollout/rounding.h"
#include "keel/rollout/sampling_weights.h"
#include "keel/task/task_table.h"
#include "keel/train/start/logprob_check.h"
#include "keel/train/update/annotate.h"
#include "keel/train/update/critic_training.h"
#include "keel/train/update/gradients.h"
#include "keel/train/update/optimizer.h"
#include "keel/train/update/token_advantages.h"
#include "tests/support/errors.h"
#include "tests/support/hard_logits.h"
#include "tests/support/linear_gradient_case.h"
#include "tests/support/tensors.h"

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

TEST(Sampling, DrawsTheSameTokensAsTheCpu) {
  const at::Device cuda = open_device("cuda");
  const int64_t rows = 512;
  for (const int64_t vocabulary : {26, 1000, 151936 / 8}) {
    const Tensor logits = at::randn({rows, vocabulary}) * 3;
    const Tensor ids = at::arange(rows, at::kLong) * 7919, positions = at::arange(rows, at::kLong) % 50;
    for (const double temperature : {0.0, 0.7, 1.0}) {
      const SampledTokens host = sample(logits, temperature, 42, ids, positions);
      const SampledTokens device = sample(logits.to(cuda), temperature, 42, ids.to(cuda), positions.to(cuda));
      // The logarithms may differ in the last bit, which can decide between nearly equal candidates.
      const int64_t equal = (host.tokens == device.tokens.cpu()).sum().item<int64_t>();
      EXPECT_GE(equal, rows - 2) << "vocabulary " << vocabulary << ", temperature " << temperature;
      const Tensor same = host.tokens == device.tokens.cpu();
      EXPECT_LT((host.logp - device.logp.cpu()).masked_select(same).abs().max().item<double>(), 2e-5);
    }
  }
}

TEST(Sampling, RoundsToLowPrecisionLikeTheCpu) {
  const at::Device cuda = open_device("cuda");
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t width : {1, 37, 96, 100, 4864}) {
      Tensor x = at::randn({300, width});
      x[3].zero_();
      x[4].mul_(1e-3);
      x[5][width / 2] = 50;
      x[6].mul_(1e-41);  // subnormal
      x[7].mul_(1e30);
      x = x.to(type);
      for (const SamplingPrecision& precision : sampling_precisions())
        for (const RoundFunction round :
             {precision.rounding.weights, precision.rounding.activations, precision.rounding.keys_and_values})
          if (round) {
            EXPECT_TRUE(round(x.to(cuda)).cpu().allclose(round(x), 0, 0, /*equal_nan=*/true))
                << precision.name << ", " << type << ", width " << width;
          }
    }
}

TEST(Sampling, RoundsNonFiniteRowsToEightBitsLikeTheCpu) {
  const at::Device cuda = open_device("cuda");
  Tensor x = at::randn({40, 30, 40});
  x[0][0][7] = NAN;
  x[1][1][0] = INFINITY;
  x[2][2] = 70000;
  const auto views = [](const Tensor& whole) {
    return std::vector<Tensor>{whole,
                               whole.transpose(0, 1),
                               whole.narrow(2, 1, 33),
                               whole.narrow(0, 0, 0),
                               whole.flatten(),
                               whole.flatten().narrow(0, 3, 457)};
  };
  for (const auto number : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble})
    for (const auto type : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
      const std::vector<Tensor> on_host = views(x.to(number)), on_device = views(x.to(cuda, number));
      for (size_t i = 0; i < on_host.size(); ++i)
        for (const auto round : {round_to_type, round_rows_to_float8})
          EXPECT_TRUE(round(on_device[i], type).cpu().allclose(round(on_host[i], type), 0, 0, true))
              << number << ", " << type << ", view " << i;
    }
}

TEST(Sampling, HasTheSameLogitNoiseAsTheCpu) {
  const at::Device cuda = open_device("cuda");
  const Tensor ids = at::arange(64, at::kLong) * 7919, positions = at::arange(64, at::kLong) % 50;
  for (const int64_t vocabulary : {26, 151936}) {
    const Tensor logits = at::randn({64, vocabulary});
    const Tensor host = with_logit_noise(logits, 0.5, 42, ids, positions);
    const Tensor device = with_logit_noise(logits.to(cuda), 0.5, 42, ids.to(cuda), positions.to(cuda));
    EXPECT_LT((host - device.cpu()).abs().max().item<double>(), 2e-6);
  }
}

TEST(Normalisers, AreUnbiasedInHeadAndSampler) {
  const at::Device cuda = open_device("cuda");
  const int64_t rows = kDrawnForAMean;
  for (const std::string& kind : kHardLogits) {
    for (const int64_t vocab : kVocabularies) {
      for (const double temperature : {1.0, 0.7}) {
        SCOPED_TRACE(kind + ", vocabulary " + std::to_string(vocab) + ", temperature " + std::to_string(temperature));
        const Tensor logits = hard_logits(kind, rows, vocab, 1), ids = at::arange(rows, at::kLong);
        const SampledTokens drawn = sample(logits.to(cuda), temperature, 3, ids.to(cuda), ids.to(cuda));
        const ExactLogProbs exact(logits, temperature, drawn.tokens.cpu());
        LogProbErrors errors;
        errors.add(drawn.logp, exact.logp);
        errors.expect_no_bias();
        const auto relative = [](const Tensor& got, const Tensor& want) {
          return ((got.cpu() - want) / want).abs().max().item<double>();
        };
        EXPECT_LT(relative(drawn.other_logp, exact.other_logp), 1e-6);
        // Hidden state i is the i-th unit vector, so the logits are bitwise equal to the given ones.
        const LmHead head(Weight(logits.t().contiguous().to(cuda)), {.temperature = temperature, .chunk_rows = 64});
        const TokenStats stats =
            head.statistics(at::eye(rows).to(cuda), drawn.tokens, {.topk_ids = drawn.tokens.unsqueeze(1)});
        EXPECT_TRUE(stats.logp.equal(drawn.logp));  // bitwise
        EXPECT_TRUE(stats.other_logp.equal(drawn.other_logp));
        EXPECT_TRUE(stats.topk_logp.squeeze(1).equal(drawn.logp));
        const NextTokenDistribution host(logits, temperature);
        EXPECT_LT(largest_difference(stats.entropy.cpu(), host.entropy()), 2e-6);
      }
    }
  }
}

TEST(NextTokens, HaveTheCpusDivergencesAndGradients) {
  const at::Device cuda = open_device("cuda");
  const int64_t rows = 65;
  for (const int64_t vocab : {1, 2, 26, 255, 257, 49152}) {
    const Tensor pi = random_normal({rows, vocab}, 1) * 3, mu = pi + random_normal({rows, vocab}, 2) * 0.3;
    const auto host = NextTokenDistribution(pi, 0.8).divergences_from(NextTokenDistribution(mu, 0.8));
    const auto device =
        NextTokenDistribution(pi.to(cuda), 0.8).divergences_from(NextTokenDistribution(mu.to(cuda), 0.8));
    EXPECT_LT(largest_difference(device.tv.cpu(), host.tv), 2e-7) << vocab;
    EXPECT_LT(relative_difference(device.kl.cpu(), host.kl), 1e-6) << vocab;
    const Tensor targets = at::arange(rows, at::kLong) * 7 % vocab, c = random_normal({rows}, 3),
                 e = random_normal({rows}, 4);
    for (const Tensor& entropy : {Tensor(), e}) {
      const Tensor want = NextTokenDistribution(pi.clone(), 0.8).into_gradient(targets, c, entropy);
      const Tensor got =
          NextTokenDistribution(pi.to(cuda), 0.8)
              .into_gradient(targets.to(cuda), c.to(cuda), entropy.defined() ? entropy.to(cuda) : entropy);
      EXPECT_LT(relative_difference(got.cpu(), want), 1e-6) << vocab;
    }
  }
}

TEST(NextTokens, RejectRowsThatAreNotDistributions) {
  const at::Device cuda = open_device("cuda");
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& bad : std::vector<std::vector<float>>{
           {nan, 0, 0}, {0, 0, nan}, {nan, -inf, -inf}, {-inf, 1, nan}, {inf, 0, 0}, {-inf, -inf, -inf}}) {
    const NextTokenDistribution next(at::tensor(bad).unsqueeze(0).to(cuda), 1.0);
    const auto [logp, other_logp] = next.log_probs(int64_tensor({1}).to(cuda));
    EXPECT_TRUE(std::isnan(logp.item<float>()));
    EXPECT_TRUE(std::isnan(other_logp.item<float>()));
    EXPECT_TRUE(std::isnan(next.entropy().item<float>()));
  }
  const NextTokenDistribution only(at::tensor({-inf, 3.0f, -inf}).unsqueeze(0).to(cuda), 1.0);
  EXPECT_EQ(only.log_probs(int64_tensor({1}).to(cuda)).logp.item<float>(), 0);
  EXPECT_EQ(only.log_probs(int64_tensor({1}).to(cuda)).other_logp.item<float>(), -inf);
  EXPECT_EQ(only.log_probs(int64_tensor({0}).to(cuda)).logp.item<float>(), -inf);
}

TEST(Sampling, DrawsRareTokensLikeTheCpu) {
  // Keys with a very small second word, and logits on both sides of the threshold of the second token.
  const at::Device cuda = open_device("cuda");
  int found = 0;
  for (uint64_t id = 0; found < 4; ++id) {
    const PhiloxBlock words = random_block(9, Stream::kSampling, id, 0, 0);
    if (words.word[1] >= 1024) continue;
    ++found;
    const auto noise = [&](int i) { return -std::log(-std::log1p(-(words.word[i] + 0.5) / 4294967296.0)); };
    for (const double margin : {-1e-3, 1e-3}) {
      const Tensor logits = at::tensor({0.0, noise(0) - noise(1) + margin}, at::kDouble).to(at::kFloat).unsqueeze(0);
      const Tensor key = int64_tensor({static_cast<int64_t>(id)}).to(cuda), position = int64_tensor({0}).to(cuda);
      EXPECT_EQ(sample(logits.to(cuda), 1, 9, key, position).tokens.item<int64_t>(), margin > 0 ? 1 : 0) << id;
    }
  }
}

TEST(Network, HasTheCpusInitialWeights) {
  const ModelConfig shape = model_config({.hidden_size = 96, .layers = 2, .heads = 3, .max_positions = 16}, 5001);
  const ModelWeights host = ModelWeights::random(shape, 3, {at::kCPU}),
                     device = ModelWeights::random(shape, 3, {open_device("cuda")});
  const auto want = host.parameters(), got = device.parameters();
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(got[i].value.is_cuda());
    // Logarithms, sines and cosines may differ in the last bit of float64, which rarely changes a float32.
    const Tensor difference = (got[i].value.cpu() - want[i].value).abs();
    EXPECT_LT(difference.max().item<double>(), 1e-8) << want[i].name;
    EXPECT_LT(difference.ne(0).to(at::kDouble).mean().item<double>(), 1e-4) << want[i].name;
  }
}

TEST(Network, IsLoadedInLowPrecisionWithoutAFloat32Copy) {
  const at::Device cuda = open_device("cuda");
  c10::DeviceAllocator& allocator = *c10::getDeviceAllocator(at::kCUDA);
  const ModelConfig config =
      model_config({.hidden_size = 512, .layers = 8, .heads = 8, .max_positions = 128}, /*vocabulary=*/1000);
  allocator.resetPeakStats(0);
  const int64_t before = allocator.getDeviceStats(0).allocated_bytes[0].current;
  const ModelWeights model = ModelWeights::random(config, 3, {cuda, at::kBFloat16});
  const int64_t bytes = allocator.getDeviceStats(0).allocated_bytes[0].peak - before;
  EXPECT_GT(bytes, 2 * config.parameter_count());
  EXPECT_LT(bytes, 2.5 * static_cast<double>(config.parameter_count()));  // with one weight of 512 x 1365 in float32
}

TEST(Network, HasTheCpusStatisticsAndGradients) {
  const at::Device cuda = open_device("cuda");
  const auto task = make_task({});
  const Tokenizer tokenizer = task->tokenizer();
  const ModelConfig shape = small_shape(tokenizer.size());
  const ModelWeights host = ModelWeights::random(shape, 3, {at::kCPU}), device = ModelWeights::random(shape, 3, {cuda});
  const GradientSinks host_gradients(host.trainable()), device_gradients(device.trainable());
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
    accumulate_gradients(model, batch, {}, Scope::kToken, [](const TokenStats& stats, int64_t, int64_t) {
      return HeadCoefficients{at::ones_like(stats.logp), {}};
    });
    return token_statistics(model, batch, 1.0).logp.cpu();
  };
  EXPECT_LT((backward(host) - backward(device)).abs().max().item<double>(), 1e-4);
  for (size_t i = 0; i < host.trainable().size(); ++i) {
    const Tensor want = host_gradients.sums()[i], got = device_gradients.sums()[i].cpu();
    EXPECT_LT(((got - want).norm() / want.norm()).item<double>(), 1e-4) << host.trainable()[i].name;
  }
}

/// Heads of 64; prompts of 9 tokens, each with four completions of 3 to 18 tokens.
struct TrainingCase {
  std::vector<std::vector<int32_t>> prompts, completions;
  std::vector<TrainingSequence> sequences;
  ModelConfig shape = model_config(
      {.hidden_size = 256, .layers = 3, .heads = 4, .kv_heads = 2, .intermediate_size = 512, .max_positions = 64}, 500);

  TrainingCase() {
    for (int32_t i = 0; i < 4; ++i) {
      prompts.emplace_back();
      for (int32_t t = 0; t < 9; ++t) prompts.back().push_back((i * 97 + t * 13) % 500);
    }
    for (int32_t i = 0; i < 16; ++i) {
      completions.emplace_back();
      for (int32_t t = 0; t < 3 + i; ++t) completions.back().push_back((i * 31 + t * 7) % 500);
    }
    for (int64_t i = 0; i < 16; ++i) sequences.push_back({prompts[i / 4], completions[i], i / 4});
  }
  void add_gradients(const CausalLm& model) const {
    for (const PackedBatch& batch : pack(sequences, 120, model.device()))
      accumulate_gradients(model, batch, {}, Scope::kToken, [](const TokenStats& stats, int64_t, int64_t) {
        return HeadCoefficients{at::ones_like(stats.logp), at::full_like(stats.logp, 0.1)};
      });
  }
};

TEST(Network, HasFloat32GradientsUpToRoundingInLowPrecision) {
  const TrainingCase given;
  const ModelWeights host = ModelWeights::random(given.shape, 3, {at::kCPU});
  const GradientSinks host_gradients(host.trainable());
  given.add_gradients(host);
  for (const auto& [type, bound] : {std::pair{at::kBFloat16, 0.04}, {at::kHalf, 0.006}}) {
    ModelWeights device = ModelWeights::random(given.shape, 3, {open_device("cuda")});
    device.set_compute_type(type);
    const GradientSinks device_gradients(device.trainable());
    given.add_gradients(device);
    for (size_t i = 0; i < host.trainable().size(); ++i) {
      const Tensor want = host_gradients.sums()[i], got = device_gradients.sums()[i];
      EXPECT_EQ(got.scalar_type(), at::kFloat);
      EXPECT_LT(((got.cpu() - want).norm() / want.norm()).item<double>(), bound) << host.trainable()[i].name;
    }
  }
}

TEST(Weight, GradientsOfLinearLayersAreNotRounded) { expect_float32_gradients_of_linear_layers(open_device("cuda")); }
TEST(Weight, GradientsOfAdaptersAreNotRounded) { expect_float32_gradients_of_adapters(open_device("cuda")); }

// An update of rms 1.5e-5 of weights of 0.02, of which rounding merged weights to bf16 loses most. The share that
// reaches the outputs is the slope of their change over the change in float64.
TEST(AdapterInSampling, KeepsSmallUpdatesInBf16) {
  const at::Device cuda = open_device("cuda");
  const int64_t in = 256, out = 192, rank = 16, rows = 4096;
  const auto narrow = [&](const Tensor& x) { return x.to(cuda, at::kBFloat16); };
  Linear first;
  first.weight = narrow(random_normal({out, in}, 1) * 0.02);
  Linear second = first, adapted = first;
  adapted.lora_a = narrow(random_normal({rank, in}, 2) / std::sqrt(in));
  adapted.lora_b = narrow(random_normal({out, rank}, 3) * 6e-5);
  adapted.lora_scale = 1;
  const Tensor x = narrow(random_normal({rows, in}, 4)), x64 = x.to(at::kDouble);
  const auto wide = [](const Weight& of) { return of.value().to(at::kDouble); };
  const Tensor update = wide(adapted.lora_b).mm(wide(adapted.lora_a)), want = x64.mm(update.t());
  EXPECT_NEAR(update.square().mean().sqrt().item<double>(), 1.5e-5, 1e-6);
  const auto share = [&](const Tensor& change) { return ((change * want).sum() / want.square().sum()).item<double>(); };
  const at::NoGradGuard no_grad;
  PackedWeightMemory memory;
  for (const int64_t batch : {64, 512}) {  // the skinny kernel, and GEMMs
    const auto outputs = [&](const Linear& layer) {
      const FusedLinear fused({&first, &layer, &second}, {}, memory);
      std::vector<Tensor> parts;
      for (const Tensor& part : x.split(batch)) parts.push_back(fused(part));
      return at::cat(parts).narrow(1, out, out).to(at::kDouble);
    };
    EXPECT_NEAR(share(outputs(adapted) - outputs(first)), 1, 0.03) << batch;
  }
  const Tensor merged = narrow(wide(first.weight) + update).to(at::kDouble) - wide(first.weight);
  EXPECT_LT(share(x64.mm(merged.t())), 0.9) << "the update is not small";
}

TEST(Training, IsBitwiseReproducibleWithRunDeterministic) {
  const TrainingCase given;
  use_deterministic_reductions(true);
  const auto trained = [&] {
    ModelWeights model = ModelWeights::random(given.shape, 3, {open_device("cuda")});
    const MasterWeights masters = model.set_compute_type(at::kBFloat16);
    Optimizer optimizer(masters, {.lr = 1e-3});
    for (int update = 0; update < 5; ++update) {
      given.add_gradients(model);
      optimizer.step(1e-3);
    }
    return masters.tensors();
  };
  const std::vector<NamedTensor> once = trained(), again = trained();
  use_deterministic_reductions(false);
  for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(once[i].value.equal(again[i].value)) << once[i].name;
}

TEST(Critic, TrainsLikeOnTheCpu) {
  const auto task = make_task({});
  const Tokenizer tokenizer = task->tokenizer();
  const std::vector<Prompt> prompts = problems(*task, 4);
  std::vector<Rollout> rollouts(8);
  for (int64_t i = 0; i < 8; ++i) {
    rollouts[i].prompt = i / 2;
    rollouts[i].tokens.prompt = prompt_columns(prompts[i / 2].tokens);
    rollouts[i].tokens.append(tokenizer.encode(task->demonstrate(5, i, true).completion), /*are_trained=*/true);
    rollouts[i].reward = static_cast<double>(i % 2);
  }
  const std::vector<int64_t> all{0, 1, 2, 3, 4, 5, 6, 7};
  const CriticOptions options{.body = "separate"};
  const auto trained = [&](at::Device device) {
    const ModelWeights policy = ModelWeights::random(small_shape(tokenizer.size()), 3, {device});
    const Critic critic = Critic::create(policy, {}, options.has_separate_body());
    CriticTraining training(critic, MasterWeights(critic.weights()), options, {.lr = 1e-3});
    std::vector<Rollout> judged = rollouts;
    for (int64_t update = 0; update < 5; ++update) {
      annotate(judged, policy, policy, nullptr, &training.critic(), {.value = true}, 1.0, 100);
      const TokenAdvantages computed = compute_advantages("gae", judged, options);
      training.accumulate_gradients({judged, computed.advantages, {}, computed.returns}, all, 100);
      EXPECT_FALSE(training.update(static_cast<double>(update), 5, 1).skipped);
    }
    std::vector<float> values;
    for (const Rollout& r : judged) values.insert(values.end(), r.tokens.values.begin(), r.tokens.values.end());
    return at::tensor(values);
  };
  const Tensor host = trained(at::kCPU), device = trained(open_device("cuda"));
  EXPECT_GT(host.abs().max().item<double>(), 1e-2);  // the weights have changed
  EXPECT_LT(((device - host).norm() / host.norm()).item<double>(), 1e-2);
}

/// Head sizes 16, 64 and 128, which use different attention kernels.
const std::vector<ModelOptions> kShapes = {
    {.hidden_size = 96, .layers = 3, .heads = 6, .kv_heads = 2, .max_positions = 128},
    {.hidden_size = 256, .layers = 2, .heads = 4, .kv_heads = 2, .max_positions = 128},
    {.hidden_size = 384, .layers = 2, .heads = 3, .kv_heads = 1, .max_positions = 128}};

TEST(Rollouts, HaveTheTrainersLogProbs) {
  const at::Device cuda = open_device("cuda");
  const auto task = make_task({});
  const Tokenizer tokenizer = task->tokenizer();
  for (const ModelOptions& shape : kShapes)
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
      for (const int64_t max_sequences : {7, 1024}) {
        ModelWeights model = ModelWeights::random(model_config(shape, tokenizer.size()), 3, {cuda});
        model.set_compute_type(type);
        const SamplingRequest request{.samples_per_prompt = 8,
                                      .max_new_tokens = 33,
                                      .max_sequences = max_sequences,
                                      .top_k = 20,
                                      .hidden_states = true};
        SamplingRequest truncated = request;
        truncated.filter = {.top_k = 12, .top_p = 0.8, .min_p = 0.01};
        truncated.max_kept_bytes = 1 << 30;
        for (const SamplingRequest& each : {request, truncated}) {
          const LogprobCheck check =
              check_sampler_matches_trainer({model}, model, tokenizer, problems(*task, 16), each, 1 << 20);
          EXPECT_GT(check.tokens, 128);
          const double limit = type == at::kFloat ? 1e-4 : type == at::kHalf ? 3e-3 : 2e-2;
          EXPECT_LT(check.max_difference, limit) << shape.hidden_size << " " << type;
          EXPECT_LT(check.topk_difference, limit) << shape.hidden_size << " " << type;
          EXPECT_LT(check.total_variation, limit) << shape.hidden_size << " " << type;
        }
      }
}

TEST(Rollouts, EqualTheCpusForAnyBatchPositionAndStopReason) {
  const at::Device cuda = open_device("cuda");
  const auto task = make_task({});
  const Tokenizer tokenizer = task->tokenizer();
  const std::vector<Prompt> prompts = problems(*task, 11);
  for (const ModelOptions& shape : kShapes) {
    const ModelConfig config = model_config(shape, tokenizer.size());
    const SamplingModel model({ModelWeights::random(config, 3, {at::kCPU})}),
        same({ModelWeights::random(config, 3, {cuda})});
    SamplingRequest request{.samples_per_prompt = 9, .stop_ids = {4, 7, 9}, .seed = 5, .top_k = 3};
    for (int64_t i = 0; i < 11; ++i) request.prompt_max_new_tokens.push_back(40 - 3 * i);
    const std::vector<Rollout> want = RolloutEngine(model, tokenizer).generate(prompts, request);
    for (const int64_t max_sequences : {1, 5, 64, 1024}) {
      request.max_sequences = max_sequences;
      const std::vector<Rollout> got = RolloutEngine(same, tokenizer).generate(prompts, request);
      ASSERT_EQ(got.size(), want.size());
      int64_t equal = 0, tokens = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].id, want[i].id);
        EXPECT_EQ(got[i].tokens.topk_ids.size(), 3 * got[i].tokens.size());
        tokens += static_cast<int64_t>(got[i].tokens.size());
        if (got[i].tokens.ids != want[i].tokens.ids) continue;  // a near tie was decided differently
        equal++;
        EXPECT_EQ(got[i].finish, want[i].finish);
        EXPECT_EQ(got[i].text, want[i].text);
        for (size_t t = 0; t < got[i].tokens.size(); ++t) {
          EXPECT_NEAR(got[i].tokens.behavior_logp[t], want[i].tokens.behavior_logp[t], 1e-4);
          EXPECT_NEAR(got[i].tokens.behavior_other_logp[t], want[i].tokens.behavior_other_logp[t], 1e-3);
          EXPECT_NEAR(got[i].tokens.behavior_entropy[t], want[i].tokens.behavior_entropy[t], 1e-4);
        }
      }
      EXPECT_GE(equal, static_cast<int64_t>(got.size()) - 2) << max_sequences;
      EXPECT_GT(tokens, static_cast<int64_t>(got.size()));
    }
  }
}

TEST(Rollouts, HalveTheBatchIfMemoryRunsOut) {
  const at::Device cuda = open_device("cuda");
  const auto task = make_task({});
  const Tokenizer tokenizer = task->tokenizer();
  // 16 KiB a token and layer: 5,000 sequences of 1,000 tokens take about 160 GB in float32, half of them fit.
  const ModelOptions shape{.hidden_size = 256, .layers = 16, .heads = 4, .kv_heads = 4, .max_positions = 2048};
  const SamplingModel model({ModelWeights::random(model_config(shape, tokenizer.size()), 3, {cuda})});
  const std::vector<Prompt> prompts = problems(*task, 5);
  std::vector<std::string> warnings;
  SamplingRequest request{.samples_per_prompt = 1000, .max_new_tokens = 1000, .stop_ids = {}, .max_sequences = 5000};
  for (int32_t token = 0; token < 16; ++token) request.stop_ids.push_back(token);  // short completions
  const std::vector<Rollout> rollouts =
      RolloutEngine(model, tokenizer).generate(prompts, request, {.warning = [&](const std::string& s) {
                                                 warnings.push_back(s);
                                               }});
  EXPECT_EQ(rollouts.size(), 5000u);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("continuing with 2500"));
  request.max_new_tokens = 2000;
  EXPECT_THAT(error_of(2, [&] { RolloutEngine(model, tokenizer).generate(prompts, request); }),
              HasSubstr("lower rollout.max_sequences"));
}

}  // namespace
}  // namespace keel
