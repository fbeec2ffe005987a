#pragma once

#include <optional>
#include <span>

#include "keel/model/network/critic.h"
#include "keel/train/update/critic_options.h"
#include "keel/train/update/gradients.h"
#include "keel/train/update/optimizer.h"
#include "keel/train/update/policy_tokens.h"

namespace keel {

/// The policy's optimizer options with the critic's learning rate.
OptimizerOptions critic_optimizer_options(const CriticOptions& critic, const OptimizerOptions& policy);

/// The weight of the value loss in the gradient of a shared body, next to the policy's loss.
constexpr double kSharedLossWeight = 0.1;

/// Metrics of one or more critic updates.
struct CriticMetrics {
  double lr = 0;                          // of the last update
  double loss = 0, clipped = 0;           // mean value loss; fraction of tokens with a clipped value
  std::optional<double> loss_scale = {};  // of the next update, if the body computes in float16
  std::optional<GradientMetrics> gradients = {};
};

/// A critic and its optimizer. The loss is the mean of PPO's clipped value loss over all tokens of an update,
/// regardless of micro-batches. The critic's optimizer updates the head and a separate body. A shared body belongs to
/// the policy: its gradient is the policy's plus the weighted value loss's.
class CriticTraining {
 public:
  /// `masters` has the master of every critic weight.
  CriticTraining(Critic critic, const MasterWeights& masters, const CriticOptions& options,
                 const OptimizerOptions& optimizer);

  /// Returns the value loss on a shared body's hidden states, which also accumulates the head's gradients; empty for a
  /// separate body. `scored` must outlive it.
  AuxLoss shared_loss(const ScoredRollouts& scored, std::span<const int64_t> indices);

  /// Accumulates the gradients of one update in a separate body and the head; does nothing for a shared body.
  void accumulate_gradients(const ScoredRollouts& scored, std::span<const int64_t> indices, int64_t tokens_per_batch);

  /// Updates the weights with the accumulated gradients; the arguments are those of OptimizerOptions::lr_at.
  Optimizer::Outcome update(double update, double planned, double updates_per_step);

  /// Returns the metrics of the updates since the last call; none if there was no update.
  std::optional<CriticMetrics> take_metrics();

  const Critic& critic() const { return critic_; }
  const MasterWeights& masters() const { return optimizer_.masters(); }

  /// The optimizer state; its names begin with "critic.".
  std::vector<NamedTensor> state() const { return optimizer_.state(); }
  void load(const std::vector<NamedTensor>& state, const std::string& path) { optimizer_.load(state, path); }

 private:
  AuxLoss loss(const ScoredRollouts& scored, std::span<const int64_t> indices, double body_weight);

  Critic critic_;
  double value_clip_;
  OptimizerOptions optimizer_options_;
  Optimizer optimizer_;
  double lr_ = 0;  // of the last update
  GradientNorms norms_;
  Tensor sums_;  // [3] float64 on the device: loss, clipped tokens, tokens
};

}  // namespace keel
