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
#include "keel/train/update/optimizer.h"
#include "keel/train/update/update_certificate.h"

namespace keel {

/// The KL to the reference that was taken off the rewards.
struct RewardKlMetrics {
  double kl = 0;           // mean over completions of the mean over their tokens
  double coefficient = 0;  // its weight in this step
};

/// What is known of an RL step, in the order in which it comes to be known.
struct StepMetrics {
  SkippedCounts skipped_rows = {};  // rows that gave no prompt
  int64_t prompt_limit = 0;         // tokens; longer prompts are passed over
  ScoreReport scores = {};
  std::string sampling_weights = "exact";  // rollout.weights
  double logit_noise = 0;
  RolloutMetrics rollouts = {};
  std::optional<GroupMetrics> groups = {};        // with dynamic sampling
  std::optional<int64_t> staleness = {};          // updates since the weights that sampled, where the sampler is behind
  std::optional<double> masked = {};              // share of the completions that the updates leave out
  std::optional<RewardKlMetrics> reward_kl = {};  // with a KL in the rewards
  std::optional<ValueMetrics> values = {};        // with a critic
  std::optional<double> lr = {};                  // of the policy's last update
  std::optional<TokenMetrics> tokens = {};        // of all updates
  std::vector<BlockedToken> blocked = {};         // the tokens that they blocked most often
  std::optional<GradientMetrics> gradients = {};  // the policy's
  std::optional<double> loss_scale = {};          // of the policy's next update, in float16
  std::optional<CriticMetrics> critic = {};
  std::optional<ImprovementCertificate> certificate = {};
  std::optional<Thresholds> thresholds = {};      // that the step had, where they move
  int64_t skipped_updates = 0;                    // of the whole run
  double sampled_tokens = 0, trained_tokens = 0;  // a token counts in every epoch
  double reward_seconds = 0;                      // that scoring took longer than sampling
  double rollout_seconds = 0, train_seconds = 0;
  std::optional<double> wait_seconds = {};         // for a sampler that works beside the training
  std::optional<double> certificate_seconds = {};  // where one was due
};

/// The loss on rows that are kept for it: the mean over all tokens that would be learned.
struct SftEvalLoss {
  double loss = 0;
  int64_t tokens = 0, rows = 0;
};

/// What is known of an update of the warm-up.
struct SftMetrics {
  double lr = 0;
  std::optional<GradientMetrics> gradients = {};
  double loss = 0, loss_average = 0;
  bool noisy = false;
  struct OfFiles {
    int64_t tokens = 0;  // that were learned
    double passes = 0;   // over the rows, with this update
  };
  std::optional<OfFiles> files = {};
  std::optional<double> loss_scale = {};  // of the next update, in float16
  int64_t skipped_updates = 0;            // of the whole run
};

/// The same for metrics.jsonl, whose keys docs/metrics.md explains; what was not measured is left out.
Json metrics_row(const StepMetrics& numbers);
Json metrics_row(const SftMetrics& numbers);
Json metrics_row(const SftEvalLoss& measured);

}  // namespace keel
