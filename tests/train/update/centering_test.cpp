// Score centering in the gradients of the LM head and in training.

#include "keel/objective/centering.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "keel/objective/methods.h"
#include "tests/objective/written_weights.h"
#include "tests/support/resumed_training.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

constexpr int64_t kRows = 12, kVocab = 50, kTopK = 8;

/// Logits of both policies, sampled tokens, and advantages +1 and -1 (or any).
struct HeadProblem {
  Tensor logits = random_normal({kRows, kVocab}, 1) * 2;
  Tensor behavior_logits = logits + random_normal({kRows, kVocab}, 2) * 0.5;
  Tensor targets = at::arange(kRows, at::kLong) * 17 % kVocab;
  Tensor advantages = at::tensor({1.0f, -1.0f}).repeat({kRows / 2});
  double temperature = 1;

  Tensor log_probs(const Tensor& of) const { return at::log_softmax(of.to(at::kDouble) / temperature, 1); }
  Tensor topk_ids() const { return std::get<1>(behavior_logits.topk(kTopK, 1)); }

  /// The gradient with respect to the logits: they are the hidden states, and the head is the identity.
  Tensor gradient(const TrustRegion& region, Centering centering, int64_t chunk_rows) const {
    const Tensor behavior = log_probs(behavior_logits), identity = at::eye(kVocab);
    BehaviorRows rows;
    if (centering == Centering::kTopK) rows.topk_ids = topk_ids();
    if (centering == Centering::kExact)
      rows = {.hidden = behavior_logits, .weight = identity, .weights = token_weights(region)};
    const LmHead head(Weight(identity), {.temperature = temperature, .chunk_rows = chunk_rows});
    return head.backward(
        logits, targets, Scope::kToken,
        [&](const TokenStats& stats, int64_t begin, int64_t end) -> HeadCoefficients {
          const Tensor a = advantages.slice(0, begin, end), mu = behavior.slice(0, begin, end);
          const Tensor sampled = mu.gather(1, targets.slice(0, begin, end).unsqueeze(1)).squeeze(1);
          const LossInputs tokens{stats.logp, sampled.to(at::kFloat), a};
          HeadCoefficients result{token_coefficients(region, tokens).coefficient, {}};
          if (centering == Centering::kNone) return result;
          result.centering.advantages = a;
          if (centering == Centering::kExact) return result;
          const TopKCentering topk =
              topk_centering(region, a, stats.topk_logp, mu.gather(1, rows.topk_ids.slice(0, begin, end)));
          result.centering.masses = topk.masses.to(at::kFloat);
          result.centering.others = topk.others.to(at::kFloat);
          result.centering.totals = topk.totals.to(at::kFloat);
          return result;
        },
        rows);
  }

  /// Autograd of -A (w_a log pi_a - sum_v b_v log pi_v) in float64, with constant weights: b = mu w in the exact form,
  /// mu w - rho f(1/rho) pi of the top K tokens otherwise.
  Tensor expected(const WrittenWeight& written, Centering centering) const {
    const Tensor z = logits.to(at::kDouble).requires_grad_(), logp = log_probs(z);
    const Tensor pi = logp.detach().exp(), mu = log_probs(behavior_logits).exp();
    const Tensor weights = written_rows(written, pi, mu, advantages);
    Tensor b = mu * weights;
    if (centering == Centering::kTopK) {
      const Tensor in_top_k = at::zeros_like(mu).scatter(1, topk_ids(), 1.0);
      const Tensor rho = (1 - (mu * in_top_k).sum(1)) / (1 - (pi * in_top_k).sum(1));
      b = b * in_top_k;
      for (int64_t i = 0; i < kRows; ++i) {
        constexpr double kTiny = 1e-12;  // the tail's |pi - mu| is negligible
        const double r = rho[i].item<double>();
        const double weight = written.weight(kTiny, r * kTiny, advantages[i].item<double>() > 0);
        b[i] -= r * weight * pi[i] * in_top_k[i];
      }
    }
    const Tensor sampled = targets.unsqueeze(1);
    const Tensor terms = (weights.gather(1, sampled) * logp.gather(1, sampled)).squeeze(1) - (b * logp).sum(1);
    (-(advantages * terms).sum()).backward();
    return z.grad();
  }
};

TEST(CenteredHead, EqualsAutogradOfTheFormulaForEveryMethod) {
  for (const double temperature : {1.0, 0.7}) {
    HeadProblem problem;
    problem.temperature = temperature;
    for (const WrittenWeight& written : written_weights()) {
      const TrustRegion region = make_region(written.method, written.params);
      for (const Centering centering : {Centering::kTopK, Centering::kExact}) {
        const Tensor want = problem.expected(written, centering);
        for (const int64_t chunk_rows : {5, 64})
          EXPECT_LT(relative_difference(problem.gradient(region, centering, chunk_rows), want), 3e-6)
              << written.method << " " << written.params.dump() << (centering == Centering::kTopK ? " topk" : " exact");
      }
    }
  }
}

TEST(CenteredHead, HasTheWeightsOfTheMethodsOperatorWithARatioCap) {
  const HeadProblem problem;
  const Tensor advantages = problem.advantages.to(at::kDouble), logp = problem.log_probs(problem.logits),
               pi = logp.exp();
  const Tensor behavior_logp = problem.log_probs(problem.behavior_logits), sampled = problem.targets.unsqueeze(1);
  for (const Method& method : methods()) {
    TrustRegion region = method.region;
    if (!token_weights(region)) continue;
    for (const auto& [name, value] : number_parameters(region))
      if (name == "ratio_cap") set_parameter(region, method.name, name, 1.1);
    const LossInputs tokens{logp.gather(1, sampled).squeeze(1), behavior_logp.gather(1, sampled).squeeze(1),
                            advantages};
    const Tensor coefficient = token_coefficients(region, tokens).coefficient.unsqueeze(1);
    const Tensor masses = weighted_behavior(region, advantages, logp, behavior_logp);
    const Tensor direction = coefficient * (at::zeros_like(pi).scatter(1, sampled, 1.0) - pi) -
                             advantages.unsqueeze(1) * (masses - pi * masses.sum(1, true));
    EXPECT_LT(relative_difference(problem.gradient(region, Centering::kExact, 64), -direction), 3e-6) << method.name;
  }
}

TEST(CenteredHead, EqualsTheUncenteredOneWherePolicyAndSamplerAgree) {
  HeadProblem problem;
  problem.behavior_logits = problem.logits;
  for (const char* method : {"pg", "pg_is", "dppo_tv", "dppo_kl", "drpo", "spo", "grpo"}) {
    const TrustRegion region = make_region(method, {});
    const Tensor plain = LmHead(Weight(at::eye(kVocab)), {})
                             .backward(problem.logits, problem.targets, Scope::kToken,
                                       [&](const TokenStats&, int64_t, int64_t) -> HeadCoefficients {
                                         return {problem.advantages, {}};
                                       });
    for (const Centering centering : {Centering::kTopK, Centering::kExact})
      EXPECT_LT(relative_difference(problem.gradient(region, centering, 64), plain), 1e-6) << method;
  }
}

TEST(CenteredHead, KeepsTheSecondTermOfABlockedToken) {
  const HeadProblem problem;
  const TrustRegion region = make_region("grpo", {});
  const Tensor blocked = problem.gradient(region, Centering::kNone, 64).abs().amax(1) == 0;
  EXPECT_GE(blocked.sum().item<int64_t>(), 2);
  for (const Centering centering : {Centering::kTopK, Centering::kExact}) {
    const Tensor largest = problem.gradient(region, centering, 64).abs().amax(1);
    EXPECT_GT(largest.masked_select(blocked).min().item<float>(), 1e-3);
  }
}

Config centered_run(const std::string& method, const std::string& centering) {
  Config config = tiny_run(method);
  config.objective.centering = centering;
  return config;
}

TEST(CenteredTraining, ResumesBitwiseWithStalenessAndLora) {
  for (const char* centering : {"topk", "exact"})
    for (const int64_t staleness : {0, 2})
      for (const bool lora : {false, true}) {
        SCOPED_TRACE(std::string(centering) + ", staleness " + std::to_string(staleness) + (lora ? ", LoRA" : ""));
        Config config = centered_run("dppo_tv", centering);
        config.rollout.staleness = staleness;
        if (lora) config.lora.rank = 2;
        ResumedTraining unbroken(config);
        const ModelWeights start = copy_of(unbroken.masters());
        std::optional<SavedTraining> saved;
        for (int step = 0; step < 4; ++step) {
          if (step == 2) saved = unbroken.saved();
          unbroken.step();
        }
        ResumedTraining resumed(config, *saved);
        resumed.step(), resumed.step();
        EXPECT_TRUE(same_weights(unbroken.masters(), resumed.masters()));
        EXPECT_FALSE(same_weights(unbroken.masters(), start));
      }
}

TEST(CenteredTraining, ScalesWithTheLossAndIgnoresMicroBatches) {
  for (const char* centering : {"topk", "exact"}) {
    SCOPED_TRACE(centering);
    Config config = centered_run("dppo_tv", centering);
    config.rollout.weights = "fp8";
    TinyTraining run(config, warm_model());
    run.step();
    const auto gradients = [&](int64_t tokens_per_batch, double loss_scale) {
      clear_gradients(run.model().trainable());
      accumulate_policy_gradients(run.model(), run.objective(),
                                  {.temperature = run.temperature(), .loss_scale = loss_scale}, tokens_per_batch,
                                  run.experience().scored(), run.all_rollouts(), [](const TokenUpdate&) {});
      return gradients_of(run.model().trainable());
    };
    const Gradients whole = gradients(1 << 20, 1), parts = gradients(60, 1), scaled = gradients(1 << 20, 8);
    for (const auto& [name, gradient] : whole) {
      EXPECT_LT(relative_difference(parts.at(name), gradient), 1e-5) << name;
      EXPECT_LT(relative_difference(scaled.at(name), gradient * 8), 1e-6) << name;
    }
  }
}

TEST(CenteredTraining, ChangesTheGradientsOnly) {
  std::vector<ModelWeights> trained;
  std::vector<std::vector<int32_t>> sampled;
  for (const char* centering : {"none", "topk", "exact"}) {
    Config config = centered_run("pg", centering);
    config.rollout.weights = "fp8";  // mu differs from pi
    ResumedTraining run(config);
    sampled.push_back(run.step().experience.rollouts[0].tokens.ids);
    trained.push_back(run.masters());
  }
  EXPECT_EQ(sampled[0], sampled[1]);
  EXPECT_EQ(sampled[0], sampled[2]);
  EXPECT_FALSE(same_weights(trained[0], trained[1]));
  // K is larger than the vocabulary, so that both forms are exact.
  const auto left = trained[1].parameters(), right = trained[2].parameters(), plain = trained[0].parameters();
  double distance = 0, change = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    distance += (left[i].value - right[i].value).square().sum().item<double>();
    change += (left[i].value - plain[i].value).square().sum().item<double>();
  }
  EXPECT_LT(distance, 1e-3 * change);
}

}  // namespace
}  // namespace keel
