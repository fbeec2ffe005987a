#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/model/network/master_weights.h"
#include "keel/train/update/eight_bit_tensor.h"

namespace keel {

class OptionTable;

/// Numbers of a parameter whose moments are worth 8 bits, as in bitsandbytes; below they stay in float32.
inline constexpr int64_t kMin8BitSize = 4096;

/// AdamW and its learning rate; the section `optimizer` of a configuration.
struct OptimizerOptions {
  double lr = 1e-6;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double max_grad_norm = 1.0;
  std::string schedule = "constant", schedule_per = "update";
  double warmup_updates = 0;  // below 1: a share of the run's
  double min_lr_ratio = 0.0;
  std::string moments = "float32";

  void describe(OptionTable& table);
  /// The settings that sections optimizer and sft share. The notes end the help of schedule and of warmup_updates.
  void describe_shared(OptionTable& table, const std::string& on_schedule = "", const std::string& on_warmup = "");

  /// Whether the learning rate is not always the same.
  bool lr_varies() const { return schedule != "constant" || warmup_updates > 0; }

  /// Updates of the warm-up in a run of so many planned ones, of which a step has `of_step`.
  double num_warmup_updates(double planned, double of_step = 1) const;

  /// The learning rate of update number `update` (from 0) in such a run, as transformers' schedules have it: linear
  /// from 0 over the warm-up, then the schedule's, whose end is reached after the last planned update. With
  /// schedule_per step all updates of a step have that of its first.
  double lr_at(double update, double planned, double of_step = 1) const;
};

/// Dynamic loss scaling (arXiv 1710.03740). float16 has nothing between 0 and 6e-8, so the gradients of a loss times a
/// power of two are computed, of one as large as can be without an overflow. It owns the scale and its count of
/// updates.
class LossScale {
 public:
  LossScale();

  double value() const;

  /// After an update that was skipped for a non-finite gradient. False at a scale of 1, which cannot be the cause.
  bool halve();

  /// After an update with finite gradients: enough of them in a row double the scale.
  void count_finite();

  /// The scale and how many updates in a row were finite, [2] float32; what is copied into it holds.
  const Tensor& state() const { return state_; }

 private:
  Tensor state_;
};

/// AdamW with gradient clipping by the global norm. It owns the masters, their moments and the sinks that the weights'
/// gradients go to; an update rounds the masters to the weights. Weight decay spares vectors (norms), as is usual.
/// 8-bit moments are read, changed and stored a part of a weight at a time, to save memory.
class Optimizer {
 public:
  /// `prefix` begins the names of its state.
  Optimizer(const MasterWeights& masters, const OptimizerOptions& options, std::string prefix = "");

  const MasterWeights& masters() const { return masters_; }

  struct Outcome {
    double grad_norm = 0;  // before clipping
    bool clipped = false;
    bool skipped = false;     // the norm was not finite: nothing was changed
    bool overflowed = false;  // it was skipped with a loss scale that may be to blame, and is halved
  };

  /// Clips, updates the weights with this learning rate, and clears the gradients.
  Outcome step(double lr);

  /// What the loss whose gradients are accumulated must be multiplied with, where weights compute in float16.
  std::optional<double> loss_scale() const;

  /// Forgets the gradients without an update.
  void clear_gradients() { gradients_.clear(); }

  /// First and second moments, the update count and the loss scale, by checkpoint name, for optimizer.safetensors.
  std::vector<NamedTensor> state() const;
  void load(const std::vector<NamedTensor>& state, const std::string& place);

 private:
  /// Of a weight; either of the two kinds.
  struct Moments {
    Tensor first, second;
    std::optional<EightBitTensor> small_first, small_second;
    Tensor updates;
  };
  /// A weight while it is trained.
  struct Trained {
    std::string name;
    Tensor master, gradient;
    Moments moments;
  };
  /// What an update needs besides the weights: `divisor` and `not_finite` are numbers on the device.
  struct Update {
    double lr;
    Tensor divisor, not_finite;
  };
  Moments no_moments(const Tensor& master) const;
  void adamw(const Update& update, double decay, at::TensorList weights, at::TensorList gradients, at::TensorList first,
             at::TensorList second, at::TensorList updates) const;
  void update_wide(const Update& update, bool matrices);
  void update_small(const Update& update);
  Outcome skip(double norm);

  MasterWeights masters_;
  GradientSinks gradients_;
  OptimizerOptions options_;
  std::string prefix_;
  std::optional<LossScale> loss_scale_;
  std::vector<Trained> trained_;  // matrices first
};

/// What is told of the gradient norms of several updates, before clipping.
struct GradientMetrics {
  double mean = 0, largest = 0;
  double clipped = 0;  // share of the updates
};

/// The gradient norms of several updates; an update that was skipped has none. It owns their sums.
class GradientNorms {
 public:
  void add(const Optimizer::Outcome& outcome);

  /// Nothing where there was no update.
  std::optional<GradientMetrics> metrics() const;

 private:
  double sum_ = 0, largest_ = 0, clipped_ = 0, count_ = 0;
};

}  // namespace keel
