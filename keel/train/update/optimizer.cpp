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

constexpr int64_t kChunk = int64_t{1} << 24;  // elements whose 8-bit moments are updated together

double select_weight_decay(const OptimizerOptions& options, const Tensor& master) {
  return master.dim() > 1 ? options.weight_decay : 0;
}

/// Refuses optimizer state that no update can produce, which would silently spoil or stop the training.
void require_valid_state(const NamedTensor& tensor, const std::string& path) {
  constexpr double kMaxUpdates = 1 << 24;                                      // largest exact count in float32
  if (!tensor.value.is_floating_point() || tensor.value.numel() == 0) return;  // 8-bit codes
  const auto [min_value, max_value] = at::aminmax(tensor.value);               // NaN if any element is NaN
  const double low = min_value.item<double>(), high = max_value.item<double>();
  const bool is_count = tensor.name.ends_with(".updates"), may_be_negative = tensor.name.ends_with(".first_moment");
  const bool valid = std::isfinite(low) && std::isfinite(high) && (may_be_negative || low >= 0) &&
                     (!is_count || (high <= kMaxUpdates && high == std::floor(high)));
  if (!valid)
    fail(ExitCode::kBadInput, path, ": tensor \"", tensor.name, "\" has values from ", low, " to ", high, "; expected ",
         is_count          ? "an integer update count"
         : may_be_negative ? "finite values"
                           : "finite values of at least 0",
         ". The checkpoint is damaged. Move it away to resume from an older one, if there is one");
}

constexpr float kFirstLossScale = 65536, kFiniteBeforeDoubling = 2000;

}  // namespace

void OptimizerOptions::describe(OptionTable& table) {
  table.add("lr", lr, "Learning rate of AdamW.", at_least(0));
  table.add("beta1", beta1, "Decay of the first moment.", at_least(0).below(1));
  table.add("eps", eps, "Added to the root of the second moment.", above(0));
  table.add("schedule_per", schedule_per,
            "How often the learning rate changes: with every update, as in TRL, or once a step, as in verl (with "
            "warm-up, all updates of the first step have rate 0).",
            one_of({"update", "step"}));
  table.add(
      "moments", moments,
      "Format of AdamW's two moments. 8bit takes a quarter of the memory: bitsandbytes' blockwise quantization with "
      "256 values a block; parameters with fewer than 4096 elements keep float32.",
      one_of({"float32", "8bit"}));
  describe_shared(table,
                  " Counted in optimizer updates; a step with fewer updates (rollout.dynamic_sampling) counts like a "
                  "full one.",
                  " With schedule_per step it is a fraction of the steps, rounded down, as in verl.");
}

void OptimizerOptions::describe_shared(OptionTable& table, const std::string& schedule_note,
                                       const std::string& warmup_note) {
  table.add("beta2", beta2, "Decay of the second moment.", at_least(0).below(1));
  table.add("weight_decay", weight_decay, "Decoupled weight decay of matrices; norms have none.", at_least(0));
  table.add("max_grad_norm", max_grad_norm, "Maximum global gradient norm; larger gradients are scaled down to it.",
            above(0, "a very large value, such as 1e9, disables clipping"));
  table.add("schedule", schedule,
            "Schedule of the learning rate after warm-up, as in transformers: constant, or linear or cosine decay to "
            "min_lr_ratio times lr at the end of the run." +
                schedule_note + " A run that is resumed with another length follows the schedule of the new length.",
            one_of({"constant", "linear", "cosine"}));
  table.add("warmup_updates", warmup_updates,
            "Warm-up updates, during which the learning rate rises linearly from 0. A value below 1 is a fraction of "
            "the run's updates, rounded up." +
                warmup_note,
            at_least(0));
  table.add("min_lr_ratio", min_lr_ratio, "Final learning rate of linear and cosine decay, as a fraction of lr.",
            at_least(0).at_most(1));
}

double OptimizerOptions::num_warmup_updates(double planned, double updates_per_step) const {
  if (warmup_updates == 0 || warmup_updates >= 1) return warmup_updates;
  if (schedule_per == "step") return std::floor(planned / updates_per_step * warmup_updates) * updates_per_step;
  return std::ceil(planned * warmup_updates);
}

double OptimizerOptions::lr_at(double update, double planned, double updates_per_step) const {
  if (schedule_per == "step") update -= std::fmod(update, updates_per_step);
  const double warmup = num_warmup_updates(planned, updates_per_step);
  if (update < warmup) return lr * (update / warmup);
  if (schedule == "constant") return lr;
  const double decay_updates = std::max(planned - warmup, 1.0);
  const double decay = schedule == "linear"
                           ? std::max(planned - update, 0.0) / decay_updates
                           : 0.5 * (1 + std::cos(std::numbers::pi * std::min((update - warmup) / decay_updates, 1.0)));
  return lr * (decay * (1 - min_lr_ratio) + min_lr_ratio);
}

Optimizer::Optimizer(const MasterWeights& masters, const OptimizerOptions& options, std::string prefix)
    : masters_(masters), gradients_(masters.weights()), options_(options), prefix_(std::move(prefix)) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> tensors = masters_.tensors();
  const std::vector<Tensor> gradients = gradients_.sums();
  for (size_t i = 0; i < tensors.size(); ++i) {
    trained_.push_back({tensors[i].name, tensors[i].value, gradients[i], zero_moments(tensors[i].value)});
    if (masters_.weights()[i].weight.type() == at::kHalf && !loss_scale_) loss_scale_.emplace();
  }
  std::ranges::stable_partition(trained_, [](const Trained& trained) { return trained.master.dim() > 1; });
}

Optimizer::Moments Optimizer::zero_moments(const Tensor& master) const {
  Moments moments;
  moments.step_count = at::zeros({}, master.options());
  if (options_.moments == "8bit" && master.numel() >= kMin8BitSize) {
    moments.first_8bit.emplace(master.numel(), /*is_signed=*/true, master.device());
    moments.second_8bit.emplace(master.numel(), /*is_signed=*/false, master.device());
  } else {
    moments.first = at::zeros_like(master);
    moments.second = at::zeros_like(master);
  }
  return moments;
}

/// The fused update divides the gradients by the loss scale and clips them with a scalar on the device, so it does not
/// wait for the norm. Only 8-bit moments wait: requantizing them after a skipped update would change them.
Optimizer::Outcome Optimizer::step(double lr) {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> gradients, step_counts;
  bool has_8bit = false;
  for (const Trained& trained : trained_) {
    gradients.push_back(trained.gradient);
    step_counts.push_back(trained.moments.step_count);
    has_8bit = has_8bit || trained.moments.first_8bit;
  }
  const double loss_scale = this->loss_scale().value_or(1);
  const Tensor norm = at::stack(at::_foreach_norm(gradients)).norm() / loss_scale;
  // The clamps avoid NaN from division by infinity and from 0 / 0.
  using Float = std::numeric_limits<float>;
  const double max_norm = std::max<double>(options_.max_grad_norm, Float::min());
  const Update update{.lr = lr,
                      .divisor = ((norm / max_norm).clamp_min(1) * loss_scale).clamp_max(Float::max()),
                      .not_finite = norm.isfinite().logical_not().to(at::kFloat)};
  if (has_8bit && !std::isfinite(norm.item<double>())) return skip(norm.item<double>());
  at::_foreach_add_(step_counts, 1 - update.not_finite);
  update_float32(update, /*matrices=*/true);
  update_float32(update, /*matrices=*/false);
  update_8bit(update);
  masters_.update_weights();
  const double grad_norm = norm.item<double>();
  if (!std::isfinite(grad_norm)) return skip(grad_norm);
  if (loss_scale_) loss_scale_->count_finite();
  clear_gradients();
  return {.grad_norm = grad_norm, .clipped = grad_norm > options_.max_grad_norm};
}

Optimizer::Outcome Optimizer::skip(double norm) {
  clear_gradients();
  return {.grad_norm = norm, .skipped = true, .overflowed = loss_scale_ && loss_scale_->halve()};
}

void Optimizer::adamw(const Update& update, double decay, at::TensorList weights, at::TensorList gradients,
                      at::TensorList first, at::TensorList second, at::TensorList step_counts) const {
  at::_fused_adamw_(weights, gradients, first, second, /*max_exp_avg_sqs=*/{}, step_counts, update.lr, options_.beta1,
                    options_.beta2, decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false, update.divisor,
                    update.not_finite);
}

void Optimizer::update_float32(const Update& update, bool matrices) {
  std::vector<Tensor> weights, gradients, first, second, step_counts;
  for (const Trained& trained : trained_) {
    const Moments& moments = trained.moments;
    if (moments.first_8bit || (trained.master.dim() > 1) != matrices) continue;
    weights.push_back(trained.master);
    gradients.push_back(trained.gradient);
    first.push_back(moments.first);
    second.push_back(moments.second);
    step_counts.push_back(moments.step_count);
  }
  if (!weights.empty())
    adamw(update, select_weight_decay(options_, weights[0]), weights, gradients, first, second, step_counts);
}

void Optimizer::update_8bit(const Update& update) {
  for (Trained& trained : trained_) {
    Moments& moments = trained.moments;
    if (!moments.first_8bit) continue;
    const Tensor& master = trained.master;
    const Tensor weights = master.view({-1}), gradients = trained.gradient.view({-1});
    for (int64_t begin = 0; begin < master.numel(); begin += kChunk) {
      const int64_t count = std::min(kChunk, master.numel() - begin);
      const Tensor first = moments.first_8bit->read(begin, count), second = moments.second_8bit->read(begin, count);
      adamw(update, select_weight_decay(options_, master), weights.narrow(0, begin, count),
            gradients.narrow(0, begin, count), first, second, moments.step_count);
      moments.first_8bit->write(begin, first);
      moments.second_8bit->write(begin, second);
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
    if (moments.first_8bit) {
      result.push_back({name + ".first_moment", moments.first_8bit->codes()});
      result.push_back({name + ".first_moment_largest", moments.first_8bit->absmax()});
      result.push_back({name + ".second_moment", moments.second_8bit->codes()});
      result.push_back({name + ".second_moment_largest", moments.second_8bit->absmax()});
    } else {
      result.push_back({name + ".first_moment", moments.first});
      result.push_back({name + ".second_moment", moments.second});
    }
    result.push_back({name + ".updates", moments.step_count});
  }
  if (loss_scale_) result.push_back({prefix_ + "loss_scale", loss_scale_->state()});
  return result;
}

void Optimizer::load(const std::vector<NamedTensor>& state, const std::string& path) {
  const at::NoGradGuard no_grad;
  std::map<std::string, Tensor> by_name;
  for (const NamedTensor& tensor : state) by_name[tensor.name] = tensor.value;
  for (const NamedTensor& own : this->state()) {
    const auto found = by_name.find(own.name);
    if (found == by_name.end() || found->second.sizes() != own.value.sizes() ||
        found->second.scalar_type() != own.value.scalar_type())
      fail(ExitCode::kBadInput, path, ": tensor \"", own.name,
           "\" is missing or has another shape or type; the checkpoint belongs to another model");
    require_valid_state({own.name, found->second}, path);
    own.value.copy_(found->second);
  }
}

void GradientNorms::add(const Optimizer::Outcome& outcome) {
  if (outcome.skipped) return;
  sum_ += outcome.grad_norm;
  max_ = std::max(max_, outcome.grad_norm);
  clipped_ += outcome.clipped ? 1 : 0;
  count_ += 1;
}

std::optional<GradientMetrics> GradientNorms::metrics() const {
  if (count_ == 0) return std::nullopt;
  return GradientMetrics{.mean = sum_ / count_, .max = max_, .clipped = clipped_ / count_};
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
