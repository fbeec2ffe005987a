// Adds LibTorch to the header of the modules without tensors.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "cmake/precompiled_plain.h"
