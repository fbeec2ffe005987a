#include "keel/train/metrics/step_metrics.h"

#include <cmath>

namespace keel {
namespace {

void put(Json& row, const std::string& key, const std::optional<double>& number) {
  if (number) row[key] = *number;
}

void put_passed_over(Json& row, const SkippedCounts& rows, int64_t prompt_limit) {
  if (rows.bad > 0) row["data/bad_rows"] = rows.bad;
  if (rows.too_long == 0) return;
  row["data/too_long"] = rows.too_long;
  row["data/max_prompt_tokens"] = prompt_limit;
}

/// Each function's mean, where there are several, and what could not be judged.
void put_scores(Json& row, const ScoreReport& report) {
  if (report.functions.size() > 1)
    for (const ScoreReport::Function& function : report.functions)
      if (function.count > 0)
        row["reward/function/" + function.name] = function.sum / static_cast<double>(function.count);
  if (report.unscored > 0) row["reward/unscored"] = report.unscored;
  if (!report.failures.empty()) row["reward/failures"] = report.failures.size();
}

void put_rollouts(Json& row, const RolloutMetrics& numbers) {
  put(row, "reward/mean", numbers.reward_mean);
  put(row, "reward/std", numbers.reward_std);
  row["reward/zero_std_groups"] = numbers.zero_std_groups;
  row["completion/length_mean"] = numbers.length_mean;
  row["completion/length_max"] = numbers.length_max;
  row["completion/truncated"] = numbers.truncated;
}

void put_groups(Json& row, const GroupMetrics& numbers) {
  row["rollout/batches"] = numbers.batches;
  row["rollout/groups_sampled"] = numbers.sampled;
  row["rollout/groups_dropped"] = numbers.dropped;
  row["rollout/groups"] = numbers.kept;
}

void put_values(Json& row, const ValueMetrics& numbers) {
  row["critic/value_mean"] = numbers.value_mean;
  row["critic/return_mean"] = numbers.return_mean;
  put(row, "critic/explained_variance", numbers.explained_variance);
}

void put_tokens(Json& row, const TokenMetrics& numbers) {
  row["policy/entropy"] = numbers.entropy;
  row["policy/kl_behavior"] = numbers.kl_behavior;
  row["policy/prob_difference_max"] = numbers.prob_difference_max;
  row["policy/prob_difference_min"] = numbers.prob_difference_min;
  put(row, "policy/kl_reference", numbers.kl_reference);
  row["trust_region/masked"] = numbers.masked;
  row["trust_region/masked_positive"] = numbers.masked_positive;
  row["trust_region/masked_negative"] = numbers.masked_negative;
  put(row, "trust_region/masked_mu_mean", numbers.masked_mu_mean);
  put(row, "trust_region/masked_entropy_mean", numbers.masked_entropy_mean);
  row["trust_region/bad_updates"] = numbers.bad_updates;
  put(row, "trust_region/topk_mass", numbers.topk_mass);
  row["trust_region/outside"] = numbers.outside;
  row["trust_region/divergence_mean"] = numbers.divergence_mean;
  row["trust_region/divergence_max"] = numbers.divergence_max;
  row["trust_region/divergence_infinite"] = numbers.divergence_infinite;
  row["mismatch/abs_prob_mean"] = numbers.mismatch_mean;
  row["mismatch/abs_prob_max"] = numbers.mismatch_max;
  row["ratio/mean"] = numbers.ratio_mean;
  row["ratio/max"] = numbers.ratio_max;
  row["policy/invalid_tokens"] = numbers.invalid_tokens;
  row["ratio/clamped"] = numbers.clamped;
  if (numbers.divergences) row["trust_region/divergence_histogram"] = to_json(*numbers.divergences);
  if (numbers.ratios) row["ratio/histogram"] = to_json(*numbers.ratios);
}

void put_gradients(Json& row, const std::string& whose, const std::optional<GradientMetrics>& numbers) {
  if (!numbers) return;
  row[whose + "/grad_norm"] = numbers->mean;
  row[whose + "/grad_norm_max"] = numbers->max;
  row[whose + "/grad_clipped"] = numbers->clipped;
}

void put_critic(Json& row, const CriticMetrics& numbers) {
  row["critic/loss"] = numbers.loss;
  row["critic/clipped"] = numbers.clipped;
  put_gradients(row, "critic", numbers.gradients);
  put(row, "critic/loss_scale", numbers.loss_scale);
}

void put_certificate(Json& row, const ImprovementCertificate& certificate) {
  row["certificate/gain"] = certificate.gain;
  row["certificate/max_penalty"] = certificate.max_penalty;
  row["certificate/average_penalty"] = certificate.average_penalty;
  row["certificate/average_penalty_low"] = certificate.average_penalty_low;
  row["certificate/bound"] = certificate.certificate;
  if (std::isfinite(certificate.standard_error)) row["certificate/standard_error"] = certificate.standard_error;
  row["certificate/improved"] = certificate.improved ? 1 : 0;
  row["certificate/divergence"] = certificate.divergence;
}

}  // namespace

Json metrics_row(const StepMetrics& numbers) {
  Json row;
  put_passed_over(row, numbers.skipped_rows, numbers.prompt_limit);
  row["time/reward"] = numbers.reward_seconds;
  put_scores(row, numbers.scores);
  row["mismatch/weights"] = numbers.sampling_weights;
  if (numbers.logit_noise > 0) row["mismatch/logit_noise"] = numbers.logit_noise;
  put_rollouts(row, numbers.rollouts);
  if (numbers.groups) put_groups(row, *numbers.groups);
  if (numbers.staleness) row["rollout/staleness"] = *numbers.staleness;
  put(row, "completion/masked", numbers.masked);
  if (numbers.reward_kl) {
    row["reward/kl"] = numbers.reward_kl->kl;
    row["reward/kl_coefficient"] = numbers.reward_kl->coefficient;
  }
  if (numbers.values) put_values(row, *numbers.values);
  put(row, "optimizer/lr", numbers.lr);
  if (numbers.critic) row["critic/lr"] = numbers.critic->lr;
  if (numbers.tokens) put_tokens(row, *numbers.tokens);
  if (!numbers.blocked.empty()) row["trust_region/blocked_tokens"] = to_json(numbers.blocked);
  put_gradients(row, "optimizer", numbers.gradients);
  put(row, "optimizer/loss_scale", numbers.loss_scale);
  if (numbers.critic) put_critic(row, *numbers.critic);
  if (numbers.certificate) put_certificate(row, *numbers.certificate);
  put(row, "time/certificate", numbers.certificate_seconds);
  if (numbers.thresholds) {
    row["trust_region/delta_low"] = numbers.thresholds->low;
    row["trust_region/delta_high"] = numbers.thresholds->high;
  }
  row["skipped_steps"] = numbers.skipped_updates;
  row["time/rollout"] = numbers.rollout_seconds;
  put(row, "time/rollout_wait", numbers.wait_seconds);
  row["time/train"] = numbers.train_seconds;
  row["throughput/rollout_tokens_per_s"] = numbers.sampled_tokens / numbers.rollout_seconds;
  row["throughput/train_tokens_per_s"] = numbers.trained_tokens / numbers.train_seconds;
  return row;
}

Json metrics_row(const SftMetrics& numbers) {
  Json row;
  row["optimizer/lr"] = numbers.lr;
  put_gradients(row, "optimizer", numbers.gradients);
  row["sft/loss"] = numbers.loss;
  row["sft/loss_average"] = numbers.loss_average;
  if (numbers.files) {
    row["sft/tokens"] = numbers.files->tokens;
    row["sft/epoch"] = numbers.files->passes;
  } else {
    row["sft/noisy"] = numbers.noisy;
  }
  put(row, "optimizer/loss_scale", numbers.loss_scale);
  if (numbers.loss_scale) row["skipped_steps"] = numbers.skipped_updates;  // expected, while the scale is found
  return row;
}

Json metrics_row(const SftEvalLoss& measured) {
  return {{"sft/eval_loss", measured.loss}, {"sft/eval_tokens", measured.tokens}, {"sft/eval_rows", measured.rows}};
}

}  // namespace keel
