#include "keel/train/update/critic_training.h"

#include <ATen/ATen.h>

#include <memory>
#include <utility>

#include "keel/objective/regions/loss_inputs.h"
#include "keel/objective/value_loss.h"

namespace keel {
namespace {

constexpr double kDefaultLrRatio = 10;  // to the policy's

}  // namespace

OptimizerOptions critic_optimizer_options(const CriticOptions& critic, const OptimizerOptions& policy) {
  OptimizerOptions options = policy;
  options.lr = critic.lr.value_or(kDefaultLrRatio * policy.lr);
  return options;
}

CriticTraining::CriticTraining(Critic critic, const MasterWeights& masters, const CriticOptions& options,
                               const OptimizerOptions& optimizer)
    : critic_(std::move(critic)),
      value_clip_(options.value_clip.value_or(kUnlimited)),
      optimizer_options_(optimizer),
      optimizer_(masters, optimizer, "critic.") {}

AuxLoss CriticTraining::loss(const ScoredRollouts& scored, std::span<const int64_t> indices, double body_weight) {
  const auto selected = std::make_shared<const SelectedRollouts>(select_rollouts(scored, indices));
  double tokens = 0;
  for (const int64_t length : selected->lengths()) tokens += static_cast<double>(length);
  return [this, selected, tokens, body_weight](const PackedBatch& batch, const Tensor& hidden) {
    const ValueLoss loss =
        value_loss(critic_.head.values(hidden), gather_column(batch, *selected, &TokenColumns::values),
                   gather_targets(batch, selected->returns), value_clip_);
    const Tensor sums = at::stack(
        {loss.loss.sum(at::kDouble), loss.clipped.sum(at::kDouble), at::ones_like(loss.loss).sum(at::kDouble)});
    sums_ = sums_.defined() ? sums_ + sums : sums;
    return critic_.head.backward(hidden, loss.gradient / tokens * optimizer_.loss_scale().value_or(1))
        .mul_(body_weight);
  };
}

AuxLoss CriticTraining::shared_loss(const ScoredRollouts& scored, std::span<const int64_t> indices) {
  return critic_.body ? AuxLoss{} : loss(scored, indices, kSharedLossWeight);
}

void CriticTraining::accumulate_gradients(const ScoredRollouts& scored, std::span<const int64_t> indices,
                                          int64_t tokens_per_batch) {
  if (!critic_.body) return;
  const AuxLoss value_loss = loss(scored, indices, /*body_weight=*/1);
  const SelectedRollouts selected = select_rollouts(scored, indices);
  for (const PackedBatch& batch : pack(selected.sequences, tokens_per_batch, critic_.body->device())) {
    const Tensor hidden = target_hidden_states(*critic_.body, batch);
    hidden.backward(value_loss(batch, hidden.detach()).to(hidden.scalar_type()));
  }
}

Optimizer::Outcome CriticTraining::update(double update, double planned, double updates_per_step) {
  lr_ = optimizer_options_.lr_at(update, planned, updates_per_step);
  const Optimizer::Outcome outcome = optimizer_.step(lr_);
  norms_.add(outcome);
  return outcome;
}

std::optional<CriticMetrics> CriticTraining::take_metrics() {
  if (!sums_.defined()) return std::nullopt;
  const Tensor sums = std::exchange(sums_, {}).cpu();
  const double tokens = sums[2].item<double>();
  return CriticMetrics{.lr = lr_,
                       .loss = sums[0].item<double>() / tokens,
                       .clipped = sums[1].item<double>() / tokens,
                       .loss_scale = optimizer_.loss_scale(),
                       .gradients = std::exchange(norms_, {}).metrics()};
}

}  // namespace keel
