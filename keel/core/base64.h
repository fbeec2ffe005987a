#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace keel {

/// Encodes bytes as base64 (RFC 4648, with padding).
std::string base64(std::span<const std::byte> bytes);

}  // namespace keel
