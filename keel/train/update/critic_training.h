#pragma once

#include <optional>
#include <span>

#include "keel/model/network/critic.h"
#include "keel/train/update/critic_options.h"
#include "keel/train/update/gradients.h"
#include "keel/train/update/optimizer.h"
#include "keel/train/update/policy_tokens.h"

namespace keel {

/// The optimizer's options for the critic: the policy's, with its own learning rate.
OptimizerOptions critic_optimizer_options(const CriticOptions& critic, const OptimizerOptions& policy);

/// The weight of the value loss in the gradient of a shared body, next to the policy's loss.
constexpr double kSharedLossWeight = 0.1;

/// What is told of some updates of a critic.
struct CriticMetrics {
  double lr = 0;                          // of the last of them
  double loss = 0, clipped = 0;           // mean over their tokens, and the share of these whose value was clipped
  std::optional<double> loss_scale = {};  // for the next, where the body computes in float16
  std::optional<GradientMetrics> gradients = {};
};

/// A critic while it learns. Its loss is the mean of PPO's clipped value loss over all tokens of an update, however
/// they are cut into batches. The head always learns from the critic's own optimizer; so does a separate body, whereas
/// a shared one belongs to the policy, and gets the value loss's gradient, weighted, beside the policy's.
class CriticTraining {
 public:
  /// `masters`: of all its weights.
  CriticTraining(Critic critic, const MasterWeights& masters, const CriticOptions& options,
                 const OptimizerOptions& optimizer);

  /// To be added to the policy's gradients: the value loss on the shared body's hidden states, which adds to the head's
  /// gradients; nothing where the body is separate. `scored` must outlive it.
  AuxLoss shared_loss(const ScoredRollouts& scored, std::span<const int64_t> indices);

  /// Adds the gradients of one update to a separate body's and to the head's; nothing where the body is shared.
  void accumulate_gradients(const ScoredRollouts& scored, std::span<const int64_t> indices, int64_t tokens_per_batch);

  /// One update with what was accumulated; the learning rate is that of the optimizer's update number `update` of so
  /// many planned ones, of which a step has `of_step`.
  Optimizer::Outcome update(double update, double planned, double of_step);

  /// Of the updates since the last call; nothing where there was none.
  std::optional<CriticMetrics> take_metrics();

  const Critic& critic() const { return critic_; }
  const MasterWeights& masters() const { return optimizer_.masters(); }

  /// The optimizer's moments, under names that no policy's tensor has.
  std::vector<NamedTensor> state() const { return optimizer_.state(); }
  void load(const std::vector<NamedTensor>& state, const std::string& place) { optimizer_.load(state, place); }

 private:
  AuxLoss loss(const ScoredRollouts& scored, std::span<const int64_t> indices, double weight_in_body);

  Critic critic_;
  double clip_;
  OptimizerOptions optimizer_options_;
  Optimizer optimizer_;
  double lr_ = 0;  // of the last update
  GradientNorms norms_;
  Tensor sums_;  // of losses, clipped tokens and tokens, float64, on the device
};

}  // namespace keel
