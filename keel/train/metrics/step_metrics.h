#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/core/thresholds.h"
#include "keel/data/prompt_stream.h"
#include "keel/reward/score.h"
#include "keel/train/metrics/rollout_metrics.h"
#include "keel/train/metrics/token_metrics.h"
#include "keel/train/update/critic_training.h"
#include "keel/train/update/drift.h"
#include "keel/train/update/optimizer.h"
#include "keel/train/update/update_certificate.h"

namespace keel {

/// The reference KL that was subtracted from the rewards.
struct RewardKlMetrics {
  double kl = 0;           // mean over completions of the mean over their tokens
  double coefficient = 0;  // in this step
};

/// Metrics of an RL step, in the order in which they are computed.
struct StepMetrics {
  SkippedCounts skipped_rows = {};  // rows without a usable prompt
  int64_t prompt_limit = 0;         // tokens; longer prompts are skipped
  ScoreReport scores = {};
  std::string sampling_precision = "exact";  // rollout.weights
  double logit_noise = 0;
  RolloutMetrics rollouts = {};
  std::optional<GroupMetrics> groups = {};        // with dynamic sampling
  std::optional<int64_t> staleness_updates = {};  // updates that the sampler's weights lack, with rollout.staleness
  std::optional<double> masked = {};              // fraction of completions excluded by train.mask_truncated
  std::optional<RewardKlMetrics> reward_kl = {};  // with a KL in the rewards
  std::optional<ValueMetrics> values = {};        // with a critic
  std::optional<double> lr = {};                  // of the policy's last update
  std::optional<TokenMetrics> tokens = {};        // of all updates
  std::optional<Drift> drift = {};                // with rollout.staleness
  std::vector<BlockedToken> blocked = {};         // the tokens most often masked by the trust region
  std::optional<GradientMetrics> gradients = {};  // the policy's
  std::optional<double> loss_scale = {};          // of the policy's next update, in float16
  std::optional<CriticMetrics> critic = {};
  std::optional<ImprovementCertificate> certificate = {};
  std::optional<Thresholds> thresholds = {};  // of this step, if they are adaptive
  int64_t skipped_updates = 0;                // of the whole run
  double sampled_tokens = 0;
  double trained_tokens = 0;  // a token counts in every epoch
  double reward_seconds = 0;  // of scoring after sampling had ended
  double rollout_seconds = 0, train_seconds = 0;
  std::optional<double> wait_seconds = {};         // for a background sampler
  std::optional<double> certificate_seconds = {};  // if one was computed
};

/// Held-out loss: the mean over all tokens in the loss mask.
struct SftEvalLoss {
  double loss = 0;
  int64_t tokens = 0, rows = 0;
};

/// Metrics of a supervised update.
struct SftMetrics {
  double lr = 0;
  std::optional<GradientMetrics> gradients = {};
  double loss = 0, loss_average = 0;
  bool noisy = false;
  struct FileMetrics {
    int64_t tokens = 0;  // in the loss mask
    double epochs = 0;   // so far, with this update
  };
  std::optional<FileMetrics> files = {};
  std::optional<double> loss_scale = {};  // of the next update, in float16
  int64_t skipped_updates = 0;            // of the whole run
};

/// Returns the row for metrics.jsonl without the missing metrics. docs/metrics.md explains the keys.
Json metrics_row(const StepMetrics& metrics);
Json metrics_row(const SftMetrics& metrics);
Json metrics_row(const SftEvalLoss& measured);

}  // namespace keel
