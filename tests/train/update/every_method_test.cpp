// Every method trains: sampler and trainer supply what its region requires, and each update's gradient equals autograd
// on full logits.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "tests/support/effort.h"
#include "tests/support/kept_mask.h"
#include "tests/support/tensors.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

/// The log-probs [M, V] at every position of the rollouts' completions: a differentiable float64 reference of Llama,
/// one sequence at a time. With truncated sampling they are those of the kept tokens, renormalised; others have -1e4,
/// whose exponential is 0.
Tensor full_log_probabilities(const ReferenceModel& weights, const TinyTraining& run) {
  std::vector<Tensor> rows;
  for (const Rollout& rollout : run.rollouts()) {
    const std::vector<int32_t>& prompt = run.prompts()[rollout.prompt].tokens;
    std::vector<int64_t> text(prompt.begin(), prompt.end());
    text.insert(text.end(), rollout.tokens.ids.begin(), rollout.tokens.ids.end());
    rows.push_back(
        weights.log_probabilities(text, run.temperature())
            .narrow(0, static_cast<int64_t>(prompt.size()) - 1, static_cast<int64_t>(rollout.tokens.size())));
    if (!rollout.tokens.kept.sizes.empty())
      rows.back() = at::log_softmax(rows.back().masked_fill(kept_mask(rollout.tokens.kept).logical_not(), -1e4), 1);
  }
  return at::cat(rows);
}

/// Repeats one value per rollout for each of its tokens.
template <class Value>
Tensor repeat_per_token(const TinyTraining& run, const Value& value) {
  std::vector<double> result;
  for (size_t i = 0; i < run.rollouts().size(); ++i)
    result.insert(result.end(), run.rollouts()[i].tokens.size(), value(i));
  return at::tensor(result, at::kDouble);
}

/// The expected results, from full logits and plain tensor operations.
class AutogradReference {
 public:
  explicit AutogradReference(const TinyTraining& run) : run_(run) {
    std::vector<int64_t> targets;
    for (const Rollout& rollout : run.rollouts())
      targets.insert(targets.end(), rollout.tokens.ids.begin(), rollout.tokens.ids.end());
    targets_ = int64_tensor(targets);
    const at::NoGradGuard no_grad;
    const Requirements needs = run.objective().requirements();
    mu_ = full_log_probabilities(ReferenceModel(run.sampler()), run);
    if (needs.recomputed_logp) old_logp_ = sampled(full_log_probabilities(ReferenceModel(run.old()), run));
    if (needs.reference_logp) reference_logp_ = sampled(full_log_probabilities(ReferenceModel(run.reference()), run));
  }

  Tensor sampled(const Tensor& rows) const { return rows.gather(1, targets_.unsqueeze(1)).squeeze(1); }

  /// All inputs of a region.
  LossInputs policy(const Tensor& pi) const {
    const Requirements needs = run_.objective().requirements();
    std::vector<double> advantages;
    for (const std::vector<float>& tokens : run_.advantages())
      advantages.insert(advantages.end(), tokens.begin(), tokens.end());
    LossInputs p{sampled(pi).detach(), sampled(mu_), at::tensor(advantages, at::kDouble)};
    for (const Rollout& rollout : run_.rollouts()) {
      p.lengths.push_back(static_cast<int64_t>(rollout.tokens.size()));
      p.groups.push_back(rollout.prompt);
    }
    p.old_logp = old_logp_;
    if (needs.top_k > 0) {
      const Tensor ids = top(needs.top_k);
      p.topk_behavior_logp = mu_.gather(1, ids);
      p.topk_logp = pi.detach().gather(1, ids);
      p.sampled_in_topk = (ids == targets_.unsqueeze(1)).any(1);
    }
    p.divergence = needs.exact_kl ? (mu_.exp() * (mu_ - pi.detach())).sum(1) : total_variation(pi);
    return p;
  }

  /// The gradients of the loss by autograd.
  Gradients gradients() const {
    const ReferenceModel weights(run_.model());
    const Tensor pi = full_log_probabilities(weights, run_), logp = sampled(pi);
    const Objective& objective = run_.objective();
    const Tensor weight = aggregation_weights();
    const Tensor coefficient = token_coefficients(objective.method.region, policy(pi)).coefficient.detach();
    Tensor loss = -(coefficient * weight * logp).sum();
    if (objective.kl_coefficient > 0) loss = loss + objective.kl_coefficient * (weight * kl(logp)).sum();
    const Tensor entropy = -(pi.exp() * pi).sum(1);
    loss = loss - objective.entropy_coefficient * (weight * entropy).sum();
    if (objective.centering != Centering::kNone) loss = loss + centered_term(pi, weight);
    loss.backward();
    Gradients result;
    for (const NamedTensor& parameter : run_.model().parameters())
      result[parameter.name] = weights.at(parameter.name).grad();
    return result;
  }

  /// The sum of weight A mu_v w_v log pi_v over all tokens v. The vocabulary has fewer than 128 tokens, so that the
  /// top-K form is exact, too.
  Tensor centered_term(const Tensor& pi, const Tensor& weight) const {
    const Tensor signs = policy(pi).advantages.sign().unsqueeze(1).expand_as(mu_);
    const LossInputs tokens{pi.detach().flatten(), mu_.flatten(), signs.flatten()};
    const Tensor weights = token_coefficients(run_.objective().method.region, tokens).coefficient.view_as(mu_) * signs;
    return ((weight * policy(pi).advantages).unsqueeze(1) * mu_.exp() * weights * pi).sum();
  }

  Tensor kl(const Tensor& logp) const {
    const Tensor d = logp - reference_logp_;
    switch (run_.objective().kl_estimator) {
      case KlEstimator::kK1:
        return d;
      case KlEstimator::kK2:
        return d * d / 2;
      case KlEstimator::kK3:
        return (-d).exp() - 1 + d;
    }
    return {};
  }

  /// The total variation that the rollouts' records allow: exact, over the top K, or binary.
  Tensor recorded_total_variation(const Tensor& pi) const {
    const Requirements needs = run_.objective().requirements();
    if (needs.hidden_states) return total_variation(pi);
    Tensor recorded = at::zeros_like(mu_, at::kBool).scatter(1, targets_.unsqueeze(1), true);
    if (needs.top_k > 0) recorded = recorded.scatter(1, top(needs.top_k), true);
    const Tensor difference = mu_.exp() - pi.detach().exp();
    const Tensor rest = difference.masked_fill(recorded, 0).sum(1).abs();
    return (difference.masked_fill(recorded.logical_not(), 0).abs().sum(1) + rest) / 2;
  }

  /// Theorem 3.2 of arXiv 2602.04879 for rewards of 0 to 1, so that xi is 1/2. The gain uses the mean of the group's
  /// other rewards as its baseline, and the sum uses |r - 1|/2 (eq. 11) instead of lower bounds of the total variation.
  void expect_certificate(const Json& row) const {
    const at::NoGradGuard no_grad;
    const Tensor pi = full_log_probabilities(ReferenceModel(run_.model()), run_);
    const double sequences = static_cast<double>(run_.rollouts().size());
    const double limit = static_cast<double>(run_.max_completion_tokens());
    const Requirements needs = run_.objective().requirements();
    const Tensor rewards =
        repeat_per_token(run_, [&](size_t i) { return run_.rollouts()[i].reward - mean_of_other_rewards(i); });
    const Tensor tv = recorded_total_variation(pi), excess = (sampled(pi) - sampled(mu_)).exp() - 1;
    const double gain = (rewards * excess).sum().item<double>() / sequences;
    const double max_tv = tv.max().item<double>(), low = tv.sum().item<double>() / sequences;
    const double sum = needs.hidden_states ? low : excess.abs().sum().item<double>() / 2 / sequences;
    EXPECT_NEAR(row.at("certificate/gain").get<double>(), gain, 1e-4 * (1 + std::abs(gain)));
    EXPECT_NEAR(row.at("certificate/max_penalty").get<double>() / (limit * (limit - 1) * max_tv * max_tv), 1, 1e-4);
    EXPECT_NEAR(row.at("certificate/average_penalty").get<double>() / (2 * sum), 1, 1e-4);
    EXPECT_NEAR(row.at("certificate/average_penalty_low").get<double>() / (2 * low), 1, 1e-4);
    EXPECT_NEAR(row.at("certificate/bound").get<double>(),
                gain - std::min(limit * (limit - 1) * max_tv * max_tv, 2 * sum), 1e-3 * (1 + std::abs(gain)));
    const double error = standard_error(rewards * excess - (2 * sum < limit * (limit - 1) * max_tv * max_tv ? 1 : 0) *
                                                               (needs.hidden_states ? 2 * tv : excess.abs()));
    EXPECT_NEAR(row.at("certificate/standard_error").get<double>(), error, 1e-3 * (1 + error));
    EXPECT_EQ(row.at("certificate/divergence"), needs.hidden_states ? "full_tv"
                                                : needs.top_k > 0   ? "topk_tv"
                                                                    : "binary_tv");
  }

 private:
  Tensor top(int64_t k) const { return std::get<1>(mu_.topk(std::min(k, mu_.size(1)), 1)); }

  /// The standard error of the mean over sequences of their sums; prompts are independent and have equally many
  /// samples.
  double standard_error(const Tensor& tokens) const {
    std::map<int64_t, double> prompt_sums;
    const double* token = tokens.const_data_ptr<double>();
    for (const Rollout& rollout : run_.rollouts())
      for (size_t t = 0; t < rollout.tokens.size(); ++t) prompt_sums[rollout.prompt] += *token++;
    const double prompts = static_cast<double>(prompt_sums.size()), mean = tokens.sum().item<double>() / prompts;
    double squares = 0;
    for (const auto& [prompt, sum] : prompt_sums) squares += (sum - mean) * (sum - mean);
    const double completions = static_cast<double>(run_.rollouts().size()) / prompts;
    return std::sqrt(squares / (prompts - 1) / prompts) / completions;
  }

  /// The mean reward of the other completions of the same prompt.
  double mean_of_other_rewards(size_t i) const {
    double sum = 0, count = 0;
    for (size_t j = 0; j < run_.rollouts().size(); ++j) {
      if (j == i || run_.rollouts()[j].prompt != run_.rollouts()[i].prompt) continue;
      sum += run_.rollouts()[j].reward;
      count += 1;
    }
    return sum / count;
  }

  Tensor total_variation(const Tensor& pi) const { return (mu_.exp() - pi.detach().exp()).abs().sum(1) / 2; }

  /// The aggregation weight of each token, from its definition.
  Tensor aggregation_weights() const {
    const std::string& kind = run_.objective().method.aggregation;
    const double sequences = static_cast<double>(run_.rollouts().size()),
                 tokens = static_cast<double>(targets_.numel());
    return repeat_per_token(run_, [&](size_t i) {
      if (kind == "token_mean") return 1 / tokens;
      if (kind == "seq_mean_token_mean") return 1 / sequences / static_cast<double>(run_.rollouts()[i].tokens.size());
      if (kind == "seq_mean_token_sum") return 1 / sequences;
      return 1 / sequences / static_cast<double>(run_.max_completion_tokens());
    });
  }

  const TinyTraining& run_;
  Tensor targets_, mu_, old_logp_, reference_logp_;
};

/// The gradient metrics of a step's row.
void expect_norms(const Json& row, const std::vector<double>& norms, double max_grad_norm) {
  const double count = static_cast<double>(norms.size()),
               mean = std::accumulate(norms.begin(), norms.end(), 0.0) / count;
  const double max_norm = *std::max_element(norms.begin(), norms.end());
  const auto clipped = std::count_if(norms.begin(), norms.end(), [&](double norm) { return norm > max_grad_norm; });
  EXPECT_NEAR(row.at("optimizer/grad_norm").get<double>(), mean, 1e-4 * mean);
  EXPECT_NEAR(row.at("optimizer/grad_norm_max").get<double>(), max_norm, 1e-4 * max_norm);
  EXPECT_EQ(row.at("optimizer/grad_clipped").get<double>(), static_cast<double>(clipped) / count);
}

/// Runs steps of two updates, the second one off-policy, and compares each gradient with autograd. Runs more steps if
/// tight thresholds block everything at first.
void expect_autograd_gradients(const Config& config, int steps = count(2, 3)) {
  TinyTraining run(config, warm_model(), /*reference=*/load_starting_model(config, {at::kCPU}).model);
  std::optional<AutogradReference> reference;
  std::vector<double> norms;  // of each update's gradient by autograd
  double total_norm = 0;
  run.when_ready = [&] { reference.emplace(run); };
  run.when_updating = [&] {
    const Gradients got = gradients_of(run.model().trainable()), want = reference->gradients();
    double squares = 0;
    for (const auto& [name, gradient] : got) {
      squares += want.at(name).square().sum().item<double>();
      total_norm += want.at(name).norm().item<double>();
      EXPECT_LE(relative_difference(gradient, want.at(name)), 1e-4) << name << ", update " << run.state().rl.updates;
    }
    norms.push_back(std::sqrt(squares));
  };
  for (int step = 0; step < steps || (total_norm <= 1 && step < 3); ++step) {
    norms.clear();
    const Json row = metrics_row(run.step());
    ASSERT_EQ(static_cast<int64_t>(norms.size()), config.train.epochs);
    expect_norms(row, norms, config.optimizer.max_grad_norm);
    for (const char* key : {"optimizer/grad_norm", "policy/entropy", "trust_region/masked", "ratio/mean"})
      EXPECT_TRUE(std::isfinite(row.at(key).get<double>())) << key;
    EXPECT_EQ(row.at("skipped_steps"), 0);
    reference->expect_certificate(row);
  }
  EXPECT_GT(total_norm, 1);  // not all advantages were 0
}

TEST(EveryMethod, EqualsAutogradOnFullLogits) {
  for (const Method& row : methods()) {
    SCOPED_TRACE(row.name);
    expect_autograd_gradients(tiny_run(row.name), count(1, 3));
  }
}

TEST(EveryMethod, EqualsAutogradWithAnotherKAndThePublishedDelta) {
  const auto run_with = [](const char* method, const char* parameter) {
    SCOPED_TRACE(std::string(method) + " " + parameter);
    Config config = tiny_run(method);
    config.objective.parameters = {parameter};
    expect_autograd_gradients(config);
  };
  run_with("dppo_topk_tv", "k=3");
  run_with("drpo_topk_kl", "k=1");
  run_with("dppo_topk_kl", "k=64");  // larger than the vocabulary
  run_with("drpo", "delta=12.5");
  run_with("minimal_mask", "anchor=recomputed");
}

TEST(EveryMethod, EqualsAutogradWithScoreCentering) {
  for (const char* method : {"pg", "pg_tis", "cispo", "grpo_clip_higher", "dppo_tv", "dppo_kl", "drpo", "spo"})
    for (const char* centering : {"topk", "exact"}) {
      SCOPED_TRACE(std::string(method) + " " + centering);
      Config config = tiny_run(method);
      config.objective.centering = centering;
      config.objective.entropy_coefficient = 0.02;
      config.reference.kl_coefficient = 0.05;
      config.rollout.temperature = 0.9;
      expect_autograd_gradients(config, count(1, 3));
    }
}

TEST(EveryMethod, EqualsAutogradWithAReferenceKlAndAnEntropyBonus) {
  for (const char* estimator : {"k1", "k2", "k3"}) {
    SCOPED_TRACE(estimator);
    Config config = tiny_run("dppo_tv");
    config.reference.kl_coefficient = 0.05;
    config.reference.estimator = estimator;
    config.objective.entropy_coefficient = 0.02;
    config.rollout.temperature = 0.9;
    expect_autograd_gradients(config);
  }
  Config batch = tiny_run("m2po");  // batch scope uses another path through the head
  batch.reference.kl_coefficient = 0.05;
  batch.objective.entropy_coefficient = 0.02;
  expect_autograd_gradients(batch);
}

TEST(EveryMethod, EqualsAutogradOnTruncatedSampling) {
  for (const char* method :
       {"dppo_tv", "dppo_topk_kl", "dppo_full_kl", "dppo_full_tv", "drpo", "minirl", "gspo", "m2po"}) {
    SCOPED_TRACE(method);
    Config config = tiny_run(method);
    config.rollout.filter = {.top_k = 8, .top_p = 0.9, .min_p = 0.02};
    config.rollout.temperature = 1.2;
    config.reference.kl_coefficient = 0.05;
    config.objective.entropy_coefficient = 0.02;
    expect_autograd_gradients(config, count(1, 3));
  }
  for (const auto& [method, centering] : {std::pair{"pg_tis", "topk"}, {"dppo_kl", "exact"}, {"drpo", "topk"}}) {
    SCOPED_TRACE(std::string(method) + " " + centering);
    Config config = tiny_run(method);
    config.rollout.filter = {.top_k = 8, .top_p = 0.9};
    config.rollout.temperature = 1.2;
    config.objective.centering = centering;
    expect_autograd_gradients(config, count(1, 3));
  }
  Config narrow = tiny_run("dppo_topk_tv");
  narrow.rollout.filter = {.top_k = 2};
  narrow.objective.parameters = {"k=3"};  // longer than any set
  expect_autograd_gradients(narrow);
}

/// The sets, from the definition: the `top_k` most likely tokens; of these, renormalised, the most likely ones until
/// they reach `top_p`; of these, those with at least `min_p` times the highest probability.
std::vector<bool> expected_set(const std::vector<double>& p, const SamplingFilter& filter) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  order.resize(std::min(order.size(), static_cast<size_t>(filter.top_k)));
  double total = 0, sum = 0;
  for (const size_t token : order) total += p[token];
  std::vector<bool> kept(p.size(), false);
  for (const size_t token : order) {
    if (sum >= filter.top_p * total || p[token] < filter.min_p * p[order[0]]) break;
    kept[token] = true;
    sum += p[token];
  }
  return kept;
}

TEST(TruncatedSampling, RecordsTheSetsOfItsDefinition) {
  Config config = tiny_run("dppo_tv");
  config.rollout.filter = {.top_k = 6, .top_p = 0.8, .min_p = 0.05};
  config.rollout.temperature = 1.5;
  TinyTraining run(config, warm_model());
  std::map<int64_t, int64_t> sizes;
  run.when_ready = [&] {
    const at::NoGradGuard no_grad;
    const ReferenceModel sampler(run.sampler());
    for (const Rollout& rollout : run.rollouts()) {
      const std::vector<int32_t>& prompt = run.prompts()[rollout.prompt].tokens;
      std::vector<int64_t> text(prompt.begin(), prompt.end());
      text.insert(text.end(), rollout.tokens.ids.begin(), rollout.tokens.ids.end());
      const Tensor p = sampler.log_probabilities(text, run.temperature()).exp(), mask = kept_mask(rollout.tokens.kept);
      ASSERT_EQ(mask.size(0), static_cast<int64_t>(rollout.tokens.size()));
      for (int64_t t = 0; t < mask.size(0); ++t) {
        const std::vector<double> got = to_vector(mask[t]);
        const std::vector<bool> want =
            expected_set(to_vector(p[static_cast<int64_t>(prompt.size()) - 1 + t]), config.rollout.filter);
        EXPECT_EQ(std::vector<bool>(got.begin(), got.end()), want) << "token " << t;
        ++sizes[std::ranges::count(want, true)];
      }
    }
  };
  for (int step = 0; step < 3; ++step) {
    const TokenMetrics tokens = run.step().tokens.value();
    EXPECT_GT(tokens.choices.value(), 0);
    EXPECT_LT(tokens.choices.value(), 1);
  }
  EXPECT_GT(sizes[1], 10);  // several sizes occur
  EXPECT_GE(sizes.size(), 3u);
}

/// With equal parameters and exact sampling, pi equals mu, so all divergences are 0. That requires top-K ids, hidden
/// states, the sampler's head and the recomputed log-probs of the right tokens.
TEST(EveryMethod, HasNoDivergenceBeforeTheFirstUpdate) {
  for (const char* method :
       {"dppo_tv", "dppo_kl", "dppo_topk_tv", "dppo_topk_kl", "dppo_full_tv", "dppo_full_kl", "minirl", "tvpo"}) {
    SCOPED_TRACE(method);
    Config config = tiny_run(method);
    config.rollout.weights = "exact";
    config.train.epochs = 1;  // one update, which is measured before it is made
    for (const SamplingFilter& filter : {SamplingFilter{}, {.top_p = 0.8}}) {
      config.rollout.filter = filter;
      TinyTraining run(config);
      const TokenMetrics tokens = run.step().tokens.value();
      EXPECT_LT(tokens.divergence_max, 1e-5);
      EXPECT_EQ(tokens.masked, 0.0);
    }
  }
}

}  // namespace
}  // namespace keel
