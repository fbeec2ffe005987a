// Beside what the plain rooms have: LibTorch.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "cmake/precompiled_plain.h"
