#pragma once

#include <ATen/ATen.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "keel/core/files/file.h"
#include "keel/rollout/sampling_weights.h"
#include "keel/task/task_table.h"
#include "keel/train/start/task_prompts.h"
#include "keel/train/trainer.h"
#include "keel/train/update/annotate.h"
#include "keel/train/update/policy_update.h"
#include "keel/train/update/token_advantages.h"
#include "tests/support/reference_model.h"
#include "tests/support/score_in_order.h"

namespace keel {

/// Short problems for a small network: two updates of 12 completions in a step, the second one off-policy.
inline Config tiny_run(const std::string& method) {
  Config config = quickstart_config();
  // Of this process alone: another build's tests may run at the same time.
  config.run.dir = std::filesystem::temp_directory_path() / ("keel_tiny_training_" + std::to_string(getpid()));
  config.model.hidden_size = 16;
  config.model.heads = 2;
  config.task.steps = 1;
  config.task.modulus = 2;
  config.sft.steps = 0;
  config.train.prompts_per_step = 3;
  config.rollout.samples_per_prompt = 4;
  config.train.sequences_per_update = 0;
  config.train.epochs = 2;
  config.train.tokens_per_batch = 60;  // several packed batches in an update
  config.objective.method = method;
  if (make_objective(config.objective, 1).requirements().value) config.critic.body = "separate";
  config.optimizer.lr = 1e-2;
  return config;
}

inline CausalLm copy_of(const CausalLm& model) {
  const at::NoGradGuard no_grad;
  return CausalLm::from_tensors(model.config(), model.parameters(), at::kCPU, "a copy");
}

inline void copy_weights(const CausalLm& from, const CausalLm& to) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> source = from.parameters(), target = to.parameters();
  for (size_t i = 0; i < source.size(); ++i) target[i].value.copy_(source[i].value);
}

/// A network that knows what a completion looks like and is often wrong, so that rewards differ; made once.
inline const CausalLm& warm_model() {
  static const CausalLm model = [] {
    Config config = tiny_run("dppo_tv");
    config.run.dir += "_warm";
    config.sft.steps = 1000;
    config.sft.lr = 1e-2;
    Console console(stderr);
    const auto trainer = Trainer::start(config, /*replace=*/true, console);
    for (int step = 0; step < 60; ++step) trainer->sft_step();
    remove_tree(config.run.dir);
    return copy_of(trainer->model());
  }();
  return model;
}

using Gradients = std::map<std::string, Tensor>;

/// The same training as a Trainer's, made of the public functions, one by one, so that a test can look between them.
class StepByStep {
 public:
  StepByStep(const Config& config, const CausalLm& start, const CausalLm& reference)
      : config_(config),
        task_(make_task(config.task)),
        tokenizer_(task_->tokenizer()),
        objective_(make_objective(config.objective, static_cast<double>(task_->completion_limit()), config.reference)),
        model_(copy_of(start)),
        sampler_(model_),
        old_(copy_of(start)),
        reference_(copy_of(reference)),
        optimizer_(model_.parameters(), config.optimizer) {
    if (config.critic.exists())
      critic_.emplace(Critic::of(model_, config.critic.own_body()), config.critic,
                      critic_optimizer_options(config.critic, config.optimizer));
  }

  /// Samples, scores and annotates the next rollouts; remembers the weights that sampled.
  void begin_step() {
    prompts_.clear();
    for (int64_t i = 0; i < config_.train.prompts_per_step; ++i)
      prompts_.push_back(task_prompt(*task_, {.model = model_, .tokenizer = tokenizer_}, config_.task.name,
                                     config_.run.seed, next_prompt_++, Split::kTrain));
    const Requirements needs = objective_.requirements();
    sampler_ = copy_of(sampling_weights(model_, config_.rollout.weights));
    old_ = copy_of(model_);
    rollouts_ = RolloutEngine(sampler_, tokenizer_)
                    .generate(prompts_, {.samples_per_prompt = config_.rollout.samples_per_prompt,
                                         .temperature = config_.rollout.temperature,
                                         .max_new_tokens = task_->completion_limit(),
                                         .seed = config_.run.seed,
                                         .top_k = needs.top_k,
                                         .hidden_states = needs.hidden_states});
    const RewardSum reward = make_reward({}, [this](const Prompt& prompt, std::string_view completion) {
      return task_->check({prompt.text, prompt.answer}, completion);
    });
    score_in_order(rollouts_, prompts_, tokenizer_, reward);
    annotate(rollouts_, prompts_, model_, &reference_, critic_ ? &critic_->critic() : nullptr, needs,
             config_.rollout.temperature, 60);
    worth_ = token_worth(objective_.method.advantage, rollouts_, config_.critic);
  }

  /// The policy's gradients of an update on all rollouts; they stay in the parameters, and so do the critic's, until
  /// update().
  Gradients gradients(
      int64_t tokens_per_batch, const TokenObserver& observe = [](const DecidedTokens&) {}) {
    for (const NamedTensor& parameter : model_.parameters()) parameter.value.mutable_grad() = Tensor();
    for (const NamedTensor& parameter : critic_ ? critic_->critic().parameters() : std::vector<NamedTensor>{})
      parameter.value.mutable_grad() = Tensor();
    std::vector<int64_t> all(rollouts_.size());
    std::iota(all.begin(), all.end(), 0);
    const ScoredRollouts scored{prompts_, rollouts_, worth_.advantages, old_.head().detach(), worth_.returns};
    accumulate_policy_gradients(model_, objective_, config_.rollout.temperature, tokens_per_batch, scored, all, observe,
                                critic_ ? critic_->shared_loss(scored, all) : HiddenLoss{});
    if (critic_) critic_->accumulate_gradients(scored, all, tokens_per_batch);
    Gradients result;
    for (const NamedTensor& parameter : model_.parameters())
      result[parameter.name] = parameter.value.grad().detach().clone();
    return result;
  }

  void update() {
    optimizer_.step(config_.optimizer.lr);
    Json row;
    if (critic_) critic_->update(critic_updates_++, row);
  }

  const Objective& objective() const { return objective_; }
  const CausalLm& model() const { return model_; }      // the policy being trained
  const CausalLm& sampler() const { return sampler_; }  // what sampled this step
  const CausalLm& old() const { return old_; }          // the policy when this step began
  const CausalLm& reference() const { return reference_; }
  const std::vector<Prompt>& prompts() const { return prompts_; }
  const std::vector<Rollout>& rollouts() const { return rollouts_; }
  const std::vector<std::vector<float>>& advantage() const { return worth_.advantages; }
  const TokenWorth& worth() const { return worth_; }
  const CriticTraining& critic() const { return *critic_; }
  double temperature() const { return config_.rollout.temperature; }
  int64_t completion_limit() const { return task_->completion_limit(); }

 private:
  Config config_;
  std::unique_ptr<Task> task_;
  Tokenizer tokenizer_;
  Objective objective_;
  CausalLm model_, sampler_, old_, reference_;
  Optimizer optimizer_;
  std::optional<CriticTraining> critic_;
  int64_t critic_updates_ = 0;
  uint64_t next_prompt_ = 0;
  std::vector<Prompt> prompts_;
  std::vector<Rollout> rollouts_;
  TokenWorth worth_;
};

}  // namespace keel
