#pragma once

namespace keel {

/// What a configuration is read for: an evaluation reads a part of it, and is told about that part alone.
enum class Purpose { kTraining, kEvaluation };

}  // namespace keel
