#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/model/network/master_weights.h"
#include "keel/train/update/eight_bit_tensor.h"

namespace keel {

class OptionTable;

/// Smaller parameters keep float32 moments, as with min_8bit_size of bitsandbytes.
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
  double warmup_updates = 0;  // below 1: a fraction of the run's updates
  double min_lr_ratio = 0.0;
  std::string moments = "float32";

  void describe(OptionTable& table);
  /// Adds the options that sections optimizer and sft share. The notes are appended to the help of schedule and
  /// warmup_updates.
  void describe_shared(OptionTable& table, const std::string& schedule_note = "", const std::string& warmup_note = "");

  /// Returns whether the learning rate changes during the run.
  bool lr_varies() const { return schedule != "constant" || warmup_updates > 0; }

  /// Returns the number of warm-up updates of a run of `planned` updates.
  double num_warmup_updates(double planned, double updates_per_step = 1) const;

  /// Returns the learning rate of update `update` (from 0) in a run of `planned` updates, with the schedules of
  /// transformers: linear from 0 during warm-up, then the decay, which ends after the last planned update. With
  /// schedule_per step, all updates of a step have the rate of its first update.
  double lr_at(double update, double planned, double updates_per_step = 1) const;
};

/// Dynamic loss scaling (arXiv 1710.03740): float16 gradients below 6e-8 would underflow to 0, so the loss is
/// multiplied by the largest power of two that does not overflow. It owns the scale and its count of finite updates.
class LossScale {
 public:
  LossScale();

  double value() const;

  /// Halves the scale after a non-finite gradient. Returns false at scale 1, which did not cause the overflow.
  bool halve();

  /// Counts an update with finite gradients; enough consecutive ones double the scale.
  void count_finite();

  /// [2] float32: the scale, and the consecutive finite updates. It is the storage itself: load() copies into it.
  const Tensor& state() const { return state_; }

 private:
  Tensor state_;
};

/// AdamW with gradient clipping by the global norm. It owns the masters, their moments and the gradient sinks of the
/// weights; an update rounds the masters to the weights. Weight decay does not apply to vectors (norms), as is usual.
/// 8-bit moments are dequantized, updated and quantized in chunks of a weight, to save memory.
class Optimizer {
 public:
  /// `prefix` is prepended to the names in state().
  Optimizer(const MasterWeights& masters, const OptimizerOptions& options, std::string prefix = "");

  const MasterWeights& masters() const { return masters_; }

  struct Outcome {
    double grad_norm = 0;  // before clipping
    bool clipped = false;
    bool skipped = false;     // the norm was not finite; the weights did not change
    bool overflowed = false;  // skipped, and the loss scale was halved as the possible cause
  };

  /// Clips the gradients, updates the weights and clears the gradients.
  Outcome step(double lr);

  /// The factor to multiply the loss with before backward; none if no weight computes in float16.
  std::optional<double> loss_scale() const;

  /// Clears the gradients without an update.
  void clear_gradients() { gradients_.clear(); }

  /// Moments, update counts and loss scale, with their names in optimizer.safetensors.
  std::vector<NamedTensor> state() const;
  void load(const std::vector<NamedTensor>& state, const std::string& path);

 private:
  /// Adam moments of a weight, in float32 or 8 bits.
  struct Moments {
    Tensor first, second;
    std::optional<EightBitTensor> first_8bit, second_8bit;
    Tensor step_count;  // finite updates
  };
  /// A trained weight.
  struct Trained {
    std::string name;
    Tensor master, gradient;
    Moments moments;
  };
  /// Scalars of an update. `divisor` and `not_finite` are on the device.
  struct Update {
    double lr;
    Tensor divisor, not_finite;
  };
  Moments zero_moments(const Tensor& master) const;
  void adamw(const Update& update, double decay, at::TensorList weights, at::TensorList gradients, at::TensorList first,
             at::TensorList second, at::TensorList step_counts) const;
  void update_float32(const Update& update, bool matrices);
  void update_8bit(const Update& update);
  Outcome skip(double norm);

  MasterWeights masters_;
  GradientSinks gradients_;
  OptimizerOptions options_;
  std::string prefix_;
  std::optional<LossScale> loss_scale_;
  std::vector<Trained> trained_;  // matrices first
};

/// Gradient norms of several updates, before clipping.
struct GradientMetrics {
  double mean = 0, max = 0;
  double clipped = 0;  // fraction of the updates
};

/// Accumulates the gradient norms of several updates, except skipped ones. It owns their sums.
class GradientNorms {
 public:
  void add(const Optimizer::Outcome& outcome);

  /// Returns none if there was no update.
  std::optional<GradientMetrics> metrics() const;

 private:
  double sum_ = 0, max_ = 0, clipped_ = 0, count_ = 0;
};

}  // namespace keel
