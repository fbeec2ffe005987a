#include "keel/train/metrics/step_metrics.h"

#include <cmath>

namespace keel {
namespace {

void put(Json& row, const std::string& key, const std::optional<double>& number) {
  if (number) row[key] = *number;
}

void put_skipped_rows(Json& row, const SkippedCounts& rows, int64_t prompt_limit) {
  if (rows.bad > 0) row["data/bad_rows"] = rows.bad;
  if (rows.too_long == 0) return;
  row["data/too_long"] = rows.too_long;
  row["data/max_prompt_tokens"] = prompt_limit;
}

/// Adds the mean of each reward function, if there are several, and the counts of failures.
void put_scores(Json& row, const ScoreReport& report) {
  if (report.functions.size() > 1)
    for (const ScoreReport::Function& function : report.functions)
      if (function.count > 0)
        row["reward/function/" + function.name] = function.sum / static_cast<double>(function.count);
  if (report.unscored > 0) row["reward/unscored"] = report.unscored;
  if (!report.failures.empty()) row["reward/failures"] = report.failures.size();
}

void put_rollouts(Json& row, const RolloutMetrics& metrics) {
  put(row, "reward/mean", metrics.reward_mean);
  put(row, "reward/std", metrics.reward_std);
  row["reward/zero_std_groups"] = metrics.zero_std_groups;
  row["completion/length_mean"] = metrics.length_mean;
  row["completion/length_max"] = metrics.length_max;
  row["completion/truncated"] = metrics.truncated;
}

void put_groups(Json& row, const GroupMetrics& metrics) {
  row["rollout/batches"] = metrics.batches;
  row["rollout/groups_sampled"] = metrics.sampled;
  row["rollout/groups_dropped"] = metrics.dropped;
  row["rollout/groups"] = metrics.kept;
}

void put_values(Json& row, const ValueMetrics& metrics) {
  row["critic/value_mean"] = metrics.value_mean;
  row["critic/return_mean"] = metrics.return_mean;
  put(row, "critic/explained_variance", metrics.explained_variance);
}

void put_tokens(Json& row, const TokenMetrics& metrics) {
  row["policy/entropy"] = metrics.entropy;
  row["policy/kl_behavior"] = metrics.kl_behavior;
  row["policy/prob_difference_max"] = metrics.prob_difference_max;
  row["policy/prob_difference_min"] = metrics.prob_difference_min;
  put(row, "policy/kl_reference", metrics.kl_reference);
  row["trust_region/masked"] = metrics.masked;
  row["trust_region/masked_positive"] = metrics.masked_positive;
  row["trust_region/masked_negative"] = metrics.masked_negative;
  row["trust_region/masked_by_update"] = metrics.masked_by_update;
  put(row, "trust_region/masked_mu_mean", metrics.masked_mu_mean);
  put(row, "trust_region/masked_entropy_mean", metrics.masked_entropy_mean);
  row["trust_region/bad_updates"] = metrics.bad_updates;
  put(row, "trust_region/topk_mass", metrics.topk_mass);
  row["trust_region/outside"] = metrics.outside;
  put(row, "trust_region/choices", metrics.choices);
  row["trust_region/divergence_mean"] = metrics.divergence_mean;
  row["trust_region/divergence_max"] = metrics.divergence_max;
  row["trust_region/divergence_infinite"] = metrics.divergence_infinite;
  row["mismatch/abs_prob_mean"] = metrics.mismatch_mean;
  row["mismatch/abs_prob_max"] = metrics.mismatch_max;
  row["ratio/mean"] = metrics.ratio_mean;
  row["ratio/max"] = metrics.ratio_max;
  row["policy/invalid_tokens"] = metrics.invalid_tokens;
  row["ratio/clamped"] = metrics.clamped;
  if (metrics.divergences) row["trust_region/divergence_histogram"] = to_json(*metrics.divergences);
  if (metrics.ratios) row["ratio/histogram"] = to_json(*metrics.ratios);
}

void put_gradients(Json& row, const std::string& prefix, const std::optional<GradientMetrics>& metrics) {
  if (!metrics) return;
  row[prefix + "/grad_norm"] = metrics->mean;
  row[prefix + "/grad_norm_max"] = metrics->max;
  row[prefix + "/grad_clipped"] = metrics->clipped;
}

void put_critic(Json& row, const CriticMetrics& metrics) {
  row["critic/loss"] = metrics.loss;
  row["critic/clipped"] = metrics.clipped;
  put_gradients(row, "critic", metrics.gradients);
  put(row, "critic/loss_scale", metrics.loss_scale);
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

Json metrics_row(const StepMetrics& metrics) {
  Json row;
  put_skipped_rows(row, metrics.skipped_rows, metrics.prompt_limit);
  row["time/reward"] = metrics.reward_seconds;
  put_scores(row, metrics.scores);
  row["mismatch/weights"] = metrics.sampling_precision;
  if (metrics.drift) {
    row["policy/drift_mean"] = metrics.drift->mean;
    row["policy/drift_max"] = metrics.drift->max;
  }
  if (metrics.logit_noise > 0) row["mismatch/logit_noise"] = metrics.logit_noise;
  put_rollouts(row, metrics.rollouts);
  if (metrics.groups) put_groups(row, *metrics.groups);
  if (metrics.staleness_updates) row["rollout/staleness"] = *metrics.staleness_updates;
  put(row, "completion/masked", metrics.masked);
  if (metrics.reward_kl) {
    row["reward/kl"] = metrics.reward_kl->kl;
    row["reward/kl_coefficient"] = metrics.reward_kl->coefficient;
  }
  if (metrics.values) put_values(row, *metrics.values);
  put(row, "optimizer/lr", metrics.lr);
  if (metrics.critic) row["critic/lr"] = metrics.critic->lr;
  if (metrics.tokens) put_tokens(row, *metrics.tokens);
  if (!metrics.blocked.empty()) row["trust_region/blocked_tokens"] = to_json(metrics.blocked);
  put_gradients(row, "optimizer", metrics.gradients);
  put(row, "optimizer/loss_scale", metrics.loss_scale);
  if (metrics.critic) put_critic(row, *metrics.critic);
  if (metrics.certificate) put_certificate(row, *metrics.certificate);
  put(row, "time/certificate", metrics.certificate_seconds);
  if (metrics.thresholds) {
    row["trust_region/delta_low"] = metrics.thresholds->low;
    row["trust_region/delta_high"] = metrics.thresholds->high;
  }
  row["skipped_steps"] = metrics.skipped_updates;
  row["time/rollout"] = metrics.rollout_seconds;
  put(row, "time/rollout_wait", metrics.wait_seconds);
  row["time/train"] = metrics.train_seconds;
  row["throughput/rollout_tokens_per_s"] = metrics.sampled_tokens / metrics.rollout_seconds;
  row["throughput/train_tokens_per_s"] = metrics.trained_tokens / metrics.train_seconds;
  return row;
}

Json metrics_row(const SftMetrics& metrics) {
  Json row;
  row["optimizer/lr"] = metrics.lr;
  put_gradients(row, "optimizer", metrics.gradients);
  row["sft/loss"] = metrics.loss;
  row["sft/loss_average"] = metrics.loss_average;
  if (metrics.files) {
    row["sft/tokens"] = metrics.files->tokens;
    row["sft/epoch"] = metrics.files->epochs;
  } else {
    row["sft/noisy"] = metrics.noisy;
  }
  put(row, "optimizer/loss_scale", metrics.loss_scale);
  if (metrics.loss_scale)
    row["skipped_steps"] = metrics.skipped_updates;  // skips are expected until the scale is found
  return row;
}

Json metrics_row(const SftEvalLoss& measured) {
  return {{"sft/eval_loss", measured.loss}, {"sft/eval_tokens", measured.tokens}, {"sft/eval_rows", measured.rows}};
}

}  // namespace keel
