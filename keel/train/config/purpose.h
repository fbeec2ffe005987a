#pragma once

namespace keel {

/// Use of a configuration. An evaluation uses a part of it, and gets notes on that part only.
enum class Purpose { kTraining, kEvaluation };

}  // namespace keel
