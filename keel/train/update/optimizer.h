#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/model/network/causal_lm.h"

namespace keel {

class OptionTable;

/// AdamW and its learning rate; the section `optimizer` of a configuration.
struct OptimizerOptions {
  double lr = 1e-6;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double max_grad_norm = 1.0;
  int64_t warmup_updates = 0;

  void describe(OptionTable& table);

  /// The learning rate of update number `update` (from 0): linear from 0 over the warm-up, then constant.
  double lr_at(int64_t update) const;
};

/// AdamW with gradient clipping by the global norm. Weight decay spares vectors (norms), as is usual.
class Optimizer {
 public:
  Optimizer(std::vector<NamedTensor> parameters, const OptimizerOptions& options);

  struct Outcome {
    double grad_norm = 0;  // before clipping
    bool clipped = false;
    bool skipped = false;  // the norm was not finite: nothing was changed
  };

  /// Clips, updates the weights with this learning rate, and clears the gradients.
  Outcome step(double lr);

  /// Forgets the gradients without an update.
  void clear_gradients();

  /// First and second moments and the update count, by checkpoint name, for optimizer.safetensors.
  std::vector<NamedTensor> state() const;
  void load(const std::vector<NamedTensor>& state, const std::string& place);

 private:
  std::vector<NamedTensor> parameters_;
  OptimizerOptions options_;
  std::vector<Tensor> first_moments_, second_moments_, update_counts_;
};

/// What is told of the gradient norms of several updates, before clipping.
struct GradientNumbers {
  double mean = 0, largest = 0;
  double clipped = 0;  // share of the updates
};

/// The gradient norms of several updates; an update that was skipped has none.
class GradientNorms {
 public:
  void add(const Optimizer::Outcome& outcome);

  /// Nothing where there was no update.
  std::optional<GradientNumbers> numbers() const;

 private:
  double sum_ = 0, largest_ = 0, clipped_ = 0, count_ = 0;
};

}  // namespace keel
