#pragma once

namespace keel {

enum class Activation { kSilu, kGeluTanh, kGelu };

}  // namespace keel
