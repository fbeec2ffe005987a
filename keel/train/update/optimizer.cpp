#include "keel/train/update/optimizer.h"

#include <ATen/ATen.h>

#include <map>

#include "keel/core/error.h"
#include "keel/core/options/options.h"

namespace keel {

void OptimizerOptions::describe(OptionTable& table) {
  table.add("lr", lr, "Learning rate of AdamW.", at_least(0));
  table.add("beta1", beta1, "Decay of the first moment.", at_least(0).below(1));
  table.add("beta2", beta2, "Decay of the second moment.", at_least(0).below(1));
  table.add("eps", eps, "Added to the root of the second moment.", above(0));
  table.add("weight_decay", weight_decay, "Decoupled weight decay of matrices; norms are spared.", at_least(0));
  table.add("max_grad_norm", max_grad_norm, "Gradients are scaled down to this global norm.", above(0));
  table.add("warmup_updates", warmup_updates, "Updates over which the learning rate rises from 0.", at_least(0));
}

double OptimizerOptions::lr_at(int64_t update) const {
  return update < warmup_updates ? lr * static_cast<double>(update + 1) / static_cast<double>(warmup_updates) : lr;
}

Optimizer::Optimizer(std::vector<NamedParameter> parameters, const OptimizerOptions& options, std::string prefix)
    : parameters_(std::move(parameters)), options_(options), prefix_(std::move(prefix)) {
  // Matrices first, so that the two kinds are two contiguous ranges for the fused update.
  std::stable_partition(parameters_.begin(), parameters_.end(),
                        [](const NamedParameter& p) { return p.value.master.dim() > 1; });
  const at::NoGradGuard no_grad;
  for (const NamedParameter& parameter : parameters_) {
    const Tensor& master = parameter.value.master;
    first_moments_.push_back(at::zeros_like(master));
    second_moments_.push_back(at::zeros_like(master));
    update_counts_.push_back(at::zeros({}, master.options().requires_grad(false)));
    if (parameter.value.compute.scalar_type() == at::kHalf && !loss_scale_) loss_scale_.emplace();
  }
  clear_gradients();
}

Optimizer::Outcome Optimizer::step(double lr) {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> weights, gradients;
  for (const NamedParameter& parameter : parameters_) {
    weights.push_back(parameter.value.master);
    gradients.push_back(parameter.value.master.grad());
  }
  if (loss_scale_) at::_foreach_mul_(gradients, 1 / loss_scale_->value());
  const double norm = at::stack(at::_foreach_norm(gradients)).norm().item<double>();
  if (!std::isfinite(norm)) {
    clear_gradients();
    return {.grad_norm = norm, .skipped = true, .overflowed = loss_scale_ && loss_scale_->halve()};
  }
  const bool clipped = norm > options_.max_grad_norm;
  if (clipped) at::_foreach_mul_(gradients, options_.max_grad_norm / norm);
  at::_foreach_add_(update_counts_, 1);

  const size_t matrices = std::count_if(weights.begin(), weights.end(), [](const Tensor& w) { return w.dim() > 1; });
  const auto update = [&](size_t begin, size_t end, double decay) {
    const auto range = [&](std::vector<Tensor>& x) { return at::TensorList(x.data() + begin, end - begin); };
    if (begin < end)
      at::_fused_adamw_(range(weights), range(gradients), range(first_moments_), range(second_moments_), {},
                        range(update_counts_), lr, options_.beta1, options_.beta2, decay, options_.eps,
                        /*amsgrad=*/false, /*maximize=*/false);
  };
  update(0, matrices, options_.weight_decay);
  update(matrices, weights.size(), 0.0);
  round_to_compute_types();
  if (loss_scale_) loss_scale_->count_finite();
  clear_gradients();
  return {.grad_norm = norm, .clipped = clipped};
}

void Optimizer::round_to_compute_types() {
  std::vector<Tensor> masters, computes;
  for (const NamedParameter& parameter : parameters_) {
    if (!parameter.value.is_rounded()) continue;
    masters.push_back(parameter.value.master);
    computes.push_back(parameter.value.compute);
  }
  if (!masters.empty()) at::_foreach_copy_(computes, masters);
}

std::optional<double> Optimizer::loss_scale() const {
  return loss_scale_ ? std::optional(loss_scale_->value()) : std::nullopt;
}

void Optimizer::clear_gradients() {
  for (const NamedParameter& parameter : parameters_) {
    Tensor& grad = parameter.value.master.mutable_grad();
    if (grad.defined())
      grad.zero_();
    else
      grad = at::zeros_like(parameter.value.master);
  }
}

std::vector<NamedTensor> Optimizer::state() const {
  std::vector<NamedTensor> result;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::string name = prefix_ + parameters_[i].name;
    result.push_back({name + ".first_moment", first_moments_[i]});
    result.push_back({name + ".second_moment", second_moments_[i]});
    result.push_back({name + ".updates", update_counts_[i]});
  }
  if (loss_scale_) result.push_back({prefix_ + "loss_scale", loss_scale_->state()});
  return result;
}

void Optimizer::load(const std::vector<NamedTensor>& state, const std::string& place) {
  const at::NoGradGuard no_grad;
  std::map<std::string, Tensor> by_name;
  for (const NamedTensor& tensor : state) by_name[tensor.name] = tensor.value;
  for (const NamedTensor& mine : this->state()) {
    const auto found = by_name.find(mine.name);
    if (found == by_name.end() || found->second.sizes() != mine.value.sizes())
      fail(ExitCode::kBadInput, place, ": tensor \"", mine.name,
           "\" is missing or has another shape; the checkpoint belongs ", "to another model");
    mine.value.copy_(found->second);
  }
}

void GradientNorms::add(const Optimizer::Outcome& outcome) {
  if (outcome.skipped) return;
  sum_ += outcome.grad_norm;
  largest_ = std::max(largest_, outcome.grad_norm);
  clipped_ += outcome.clipped ? 1 : 0;
  count_ += 1;
}

std::optional<GradientNumbers> GradientNorms::numbers() const {
  if (count_ == 0) return std::nullopt;
  return GradientNumbers{.mean = sum_ / count_, .largest = largest_, .clipped = clipped_ / count_};
}

}  // namespace keel
