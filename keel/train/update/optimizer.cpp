#include "keel/train/update/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "keel/core/error.h"
#include "keel/core/options/options.h"

namespace keel {
namespace {

constexpr int64_t kAtOnce = int64_t{1} << 24;  // numbers whose 8-bit moments are read, moved and stored together

double decay_of(const OptimizerOptions& options, const Tensor& master) {
  return master.dim() > 1 ? options.weight_decay : 0;
}

/// What no update leaves behind: it would be carried on from checkpoint to checkpoint, or stop all weights unseen.
void require_possible(const NamedTensor& tensor, const std::string& place) {
  constexpr double kMostUpdates = 1 << 24;                                     // a float32 counts no further
  if (!tensor.value.is_floating_point() || tensor.value.numel() == 0) return;  // codes of 8 bits
  const auto [least, most] = at::aminmax(tensor.value);                        // NaN where one is
  const double low = least.item<double>(), high = most.item<double>();
  const bool is_count = tensor.name.ends_with(".updates"), may_be_negative = tensor.name.ends_with(".first_moment");
  const bool possible = std::isfinite(low) && std::isfinite(high) && (may_be_negative || low >= 0) &&
                        (!is_count || (high <= kMostUpdates && high == std::floor(high)));
  if (!possible)
    fail(ExitCode::kBadInput, place, ": tensor \"", tensor.name, "\" has numbers from ", low, " to ", high,
         "; expected ",
         is_count          ? "a whole number of updates"
         : may_be_negative ? "finite ones"
                           : "finite ones, none below 0",
         ". No run leaves such a state: remove this checkpoint to go on from the one before");
}

constexpr float kFirstLossScale = 65536, kFiniteBeforeDoubling = 2000;

}  // namespace

void OptimizerOptions::describe(OptionTable& table) {
  table.add("lr", lr, "Learning rate of AdamW.", at_least(0));
  table.add("beta1", beta1, "Decay of the first moment.", at_least(0).below(1));
  table.add("eps", eps, "Added to the root of the second moment.", above(0));
  table.add("schedule_per", schedule_per,
            "When the learning rate moves along its curve: with every update, as TRL's does; or once a step, all "
            "updates of which have the rate of the first, as verl's does: with a warm-up the whole first step has 0.",
            one_of({"update", "step"}));
  table.add(
      "moments", moments,
      "What AdamW's two moments are kept in. 8bit takes a quarter of the memory: codes for blocks of 256 numbers, "
      "as bitsandbytes has them; weights of fewer than 4096 numbers stay in float32.",
      one_of({"float32", "8bit"}));
  describe_shared(table,
                  " Counted in optimizer updates, of which a run has the steps times the updates of a step; where a "
                  "step makes fewer (rollout.dynamic_sampling), the next begins where it would have begun after all "
                  "of them.",
                  " With schedule_per step it is a share of the steps, rounded down, as in verl.");
}

void OptimizerOptions::describe_shared(OptionTable& table, const std::string& on_schedule,
                                       const std::string& on_warmup) {
  table.add("beta2", beta2, "Decay of the second moment.", at_least(0).below(1));
  table.add("weight_decay", weight_decay, "Decoupled weight decay of matrices; norms are spared.", at_least(0));
  table.add("max_grad_norm", max_grad_norm, "Gradients are scaled down to this global norm.",
            above(0, "a norm that no gradient has, such as 1e9, clips nothing"));
  table.add("schedule", schedule,
            "The learning rate after the warm-up, as transformers' schedulers have it: constant; or linear or cosine, "
            "which fall to min_lr_ratio times lr at the end of the run." +
                on_schedule +
                " A run that is resumed with more or fewer steps goes on along the curve of its new length.",
            one_of({"constant", "linear", "cosine"}));
  table.add("warmup_updates", warmup_updates,
            "Updates over which the learning rate rises linearly from 0, which the first one has. Below 1 it is a "
            "share of the run's updates, rounded up." +
                on_warmup,
            at_least(0));
  table.add("min_lr_ratio", min_lr_ratio, "What linear and cosine end at, as a share of lr.", at_least(0).at_most(1));
}

double OptimizerOptions::num_warmup_updates(double planned, double of_step) const {
  if (warmup_updates == 0 || warmup_updates >= 1) return warmup_updates;
  if (schedule_per == "step") return std::floor(planned / of_step * warmup_updates) * of_step;
  return std::ceil(planned * warmup_updates);
}

double OptimizerOptions::lr_at(double update, double planned, double of_step) const {
  if (schedule_per == "step") update -= std::fmod(update, of_step);
  const double warmup = num_warmup_updates(planned, of_step);
  if (update < warmup) return lr * (update / warmup);
  if (schedule == "constant") return lr;
  const double falling = std::max(planned - warmup, 1.0);
  const double left = schedule == "linear"
                          ? std::max(planned - update, 0.0) / falling
                          : 0.5 * (1 + std::cos(std::numbers::pi * std::min((update - warmup) / falling, 1.0)));
  return lr * (left * (1 - min_lr_ratio) + min_lr_ratio);
}

Optimizer::Optimizer(const MasterWeights& masters, const OptimizerOptions& options, std::string prefix)
    : masters_(masters), gradients_(masters.weights()), options_(options), prefix_(std::move(prefix)) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> tensors = masters_.tensors();
  const std::vector<Tensor> gradients = gradients_.sums();
  for (size_t i = 0; i < tensors.size(); ++i) {
    trained_.push_back({tensors[i].name, tensors[i].value, gradients[i], no_moments(tensors[i].value)});
    if (masters_.weights()[i].weight.type() == at::kHalf && !loss_scale_) loss_scale_.emplace();
  }
  std::ranges::stable_partition(trained_, [](const Trained& trained) { return trained.master.dim() > 1; });
}

Optimizer::Moments Optimizer::no_moments(const Tensor& master) const {
  Moments moments;
  moments.updates = at::zeros({}, master.options());
  if (options_.moments == "8bit" && master.numel() >= kMin8BitSize) {
    moments.small_first.emplace(master.numel(), /*is_signed=*/true, master.device());
    moments.small_second.emplace(master.numel(), /*is_signed=*/false, master.device());
  } else {
    moments.first = at::zeros_like(master);
    moments.second = at::zeros_like(master);
  }
  return moments;
}

/// The gradients are divided by the loss scale and clipped in the update itself, by a number on the device: nothing
/// waits for the norm before the update is under way, but for 8-bit moments, which are not the same when stored again.
Optimizer::Outcome Optimizer::step(double lr) {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> gradients, updates;
  bool small = false;
  for (const Trained& trained : trained_) {
    gradients.push_back(trained.gradient);
    updates.push_back(trained.moments.updates);
    small = small || trained.moments.small_first;
  }
  const double loss_scale = this->loss_scale().value_or(1);
  const Tensor norm = at::stack(at::_foreach_norm(gradients)).norm() / loss_scale;
  // What is divided by infinity, or 0 by 0, is no number in the update.
  using Float = std::numeric_limits<float>;
  const double most = std::max<double>(options_.max_grad_norm, Float::min());
  const Update update{.lr = lr,
                      .divisor = ((norm / most).clamp_min(1) * loss_scale).clamp_max(Float::max()),
                      .not_finite = norm.isfinite().logical_not().to(at::kFloat)};
  if (small && !std::isfinite(norm.item<double>())) return skip(norm.item<double>());
  at::_foreach_add_(updates, 1 - update.not_finite);
  update_wide(update, /*matrices=*/true);
  update_wide(update, /*matrices=*/false);
  update_small(update);
  masters_.update_weights();
  const double told = norm.item<double>();
  if (!std::isfinite(told)) return skip(told);
  if (loss_scale_) loss_scale_->count_finite();
  clear_gradients();
  return {.grad_norm = told, .clipped = told > options_.max_grad_norm};
}

Optimizer::Outcome Optimizer::skip(double norm) {
  clear_gradients();
  return {.grad_norm = norm, .skipped = true, .overflowed = loss_scale_ && loss_scale_->halve()};
}

void Optimizer::adamw(const Update& update, double decay, at::TensorList weights, at::TensorList gradients,
                      at::TensorList first, at::TensorList second, at::TensorList updates) const {
  at::_fused_adamw_(weights, gradients, first, second, /*max_exp_avg_sqs=*/{}, updates, update.lr, options_.beta1,
                    options_.beta2, decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false, update.divisor,
                    update.not_finite);
}

void Optimizer::update_wide(const Update& update, bool matrices) {
  std::vector<Tensor> weights, gradients, first, second, updates;
  for (const Trained& trained : trained_) {
    const Moments& moments = trained.moments;
    if (moments.small_first || (trained.master.dim() > 1) != matrices) continue;
    weights.push_back(trained.master);
    gradients.push_back(trained.gradient);
    first.push_back(moments.first);
    second.push_back(moments.second);
    updates.push_back(moments.updates);
  }
  if (!weights.empty()) adamw(update, decay_of(options_, weights[0]), weights, gradients, first, second, updates);
}

void Optimizer::update_small(const Update& update) {
  for (Trained& trained : trained_) {
    Moments& moments = trained.moments;
    if (!moments.small_first) continue;
    const Tensor& master = trained.master;
    const Tensor weights = master.view({-1}), gradients = trained.gradient.view({-1});
    for (int64_t begin = 0; begin < master.numel(); begin += kAtOnce) {
      const int64_t count = std::min(kAtOnce, master.numel() - begin);
      const Tensor first = moments.small_first->read(begin, count), second = moments.small_second->read(begin, count);
      adamw(update, decay_of(options_, master), weights.narrow(0, begin, count), gradients.narrow(0, begin, count),
            first, second, moments.updates);
      moments.small_first->write(begin, first);
      moments.small_second->write(begin, second);
    }
  }
}

std::optional<double> Optimizer::loss_scale() const {
  return loss_scale_ ? std::optional(loss_scale_->value()) : std::nullopt;
}

std::vector<NamedTensor> Optimizer::state() const {
  std::vector<NamedTensor> result;
  for (const Trained& trained : trained_) {
    const std::string name = prefix_ + trained.name;
    const Moments& moments = trained.moments;
    if (moments.small_first) {
      result.push_back({name + ".first_moment", moments.small_first->codes()});
      result.push_back({name + ".first_moment_largest", moments.small_first->largest()});
      result.push_back({name + ".second_moment", moments.small_second->codes()});
      result.push_back({name + ".second_moment_largest", moments.small_second->largest()});
    } else {
      result.push_back({name + ".first_moment", moments.first});
      result.push_back({name + ".second_moment", moments.second});
    }
    result.push_back({name + ".updates", moments.updates});
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
    if (found == by_name.end() || found->second.sizes() != mine.value.sizes() ||
        found->second.scalar_type() != mine.value.scalar_type())
      fail(ExitCode::kBadInput, place, ": tensor \"", mine.name,
           "\" is missing or has another shape or type; the checkpoint belongs ", "to another model");
    require_possible({mine.name, found->second}, place);
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

std::optional<GradientMetrics> GradientNorms::metrics() const {
  if (count_ == 0) return std::nullopt;
  return GradientMetrics{.mean = sum_ / count_, .largest = largest_, .clipped = clipped_ / count_};
}

LossScale::LossScale() : state_(at::tensor({kFirstLossScale, 0.0f})) {}

double LossScale::value() const { return state_.const_data_ptr<float>()[0]; }

bool LossScale::halve() {
  float* const state = state_.mutable_data_ptr<float>();
  state[1] = 0;
  if (state[0] <= 1) return false;
  state[0] /= 2;
  return true;
}

void LossScale::count_finite() {
  float* const state = state_.mutable_data_ptr<float>();
  if (++state[1] < kFiniteBeforeDoubling) return;
  state[0] *= 2;
  state[1] = 0;
}

}  // namespace keel
