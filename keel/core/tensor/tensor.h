#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

namespace keel {
using Tensor = at::Tensor;
}
