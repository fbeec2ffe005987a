#include "keel/train/update/loss_scale.h"

#include <ATen/ATen.h>

namespace keel {
namespace {

constexpr float kFirst = 65536, kFiniteBeforeDoubling = 2000;

}  // namespace

LossScale::LossScale() : state_(at::tensor({kFirst, 0.0f})) {}

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
