#pragma once

#include <nlohmann/json.hpp>

namespace keel {
/// The one tree type for configuration, metrics and files. Keeps the order in which keys were written.
using Json = nlohmann::ordered_json;
}  // namespace keel
