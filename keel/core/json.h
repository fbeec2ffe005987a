#pragma once

#include <nlohmann/json.hpp>

namespace keel {
/// The tree type for configurations, metrics and files. Keeps keys in insertion order.
using Json = nlohmann::ordered_json;
}  // namespace keel
