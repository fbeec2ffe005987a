#include "keel/train/run_watcher.h"

#include <cmath>

#include "keel/core/str_cat.h"
#include "keel/model/network/finite_weights.h"
#include "keel/train/health.h"
#include "keel/train/trainer.h"

namespace keel {
namespace {

/// The settings that, together with a token's record, determine its loss; `parameters` are the input of make_region().
Json token_record_header(const Config& config, const Objective& objective, const LoadedModel& policy) {
  const Method& method = objective.method;
  Json values = Json::object();
  for (const auto& [name, value] : number_parameters(method.region))
    values[name] = std::isinf(value) ? Json() : Json(value);
  for (const auto& [name, text] : choice_parameters(method.region)) values[name] = text;
  return {{"method", method.name},
          {"parameters", values},
          {"advantage", method.advantage},
          {"aggregation", method.aggregation},
          {"horizon", objective.length_divisor},
          {"entropy_coefficient", objective.entropy_coefficient},
          {"centering", config.objective.centering},
          {"kl_coefficient", objective.kl_coefficient},
          {"kl_estimator", config.reference.estimator},
          {"top_k", objective.requirements().top_k},
          {"temperature", config.rollout.temperature},
          {"model", config.model.path},
          {"vocabulary", policy.model.config().vocab_size},
          {"seed", config.run.seed}};
}

}  // namespace

void RunWatcher::on_scored(const ScoreReport& report, size_t completions) {
  collecting = config_.rollout.staleness == 0;  // with staleness, the policy that sampled the batch is gone
  log_.scored(report, completions, state_.step() + 1, config_.reward.on_error);
}

void RunWatcher::on_experience(const Experience& experience) {
  collecting = false;
  samples_.emplace(experience.token_advantages.advantages, config_.record.samples_per_step);
  trained_on = str_cat("prompts ", state_.rl.prompt_position, " to ", experience.position);
  constexpr int64_t kRecordInterval = 10;  // steps
  const std::string& tokens = config_.record.tokens;
  if (tokens == "every_step" || (tokens != "none" && state_.rl.steps % kRecordInterval == 0)) record_tokens(experience);
}

void RunWatcher::record_tokens(const Experience& experience) {
  constexpr int64_t kSample = 16;  // completions per step
  RecordSelection selection{.seed = config_.run.seed};
  if (config_.record.tokens == "sample") selection.rollouts = kSample;
  records_.emplace(folder_.tokens(), state_.step() + 1, experience.prompts, experience.rollouts,
                   experience.trained_index, selection, policy_.tokenizer);
  // The step adapts the thresholds later.
  header_ = token_record_header(config_, current_objective(config_, state_.rl), policy_);
}

void RunWatcher::on_tokens(const TokenUpdate& tokens, std::span<const int64_t> minibatch) {
  samples_->add(tokens.batch, minibatch, tokens.begin, tokens.loss_inputs, tokens.decision);
  if (records_) records_->add(tokens, minibatch);
}

void RunWatcher::on_gradients(std::span<const int64_t>) {
  if (records_) records_->end_update();
}

void RunWatcher::on_skipped_update(bool overflowed) {
  if (overflowed) return log_.overflowed_update(state_.step() + 1);
  if (state_.updates == 0) require_finite(policy_.model);  // the loaded weights may already be invalid
  log_.skipped_update(state_.step() + 1, trained_on);
  check_skipped_updates(state_, config_);
}

void RunWatcher::write(const Experience& experience) {
  for (const Json& sample : samples_->rows(state_.step(), experience.prompts, experience.rollouts,
                                           experience.token_advantages.advantages, policy_.tokenizer))
    folder_.add_sample(sample);
  if (records_) records_->commit(std::move(header_));
  records_.reset();
}

void RunWatcher::add_metrics(const char* phase, const Json& metrics) {
  Json row = {{"phase", phase}, {"step", state_.step()}, {"updates", state_.updates}};
  row.update(metrics);
  trackers_.add(folder_.add_metrics(row));
}

}  // namespace keel
