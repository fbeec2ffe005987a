#pragma once

#include <string_view>

namespace keel {

// Files that are part of the program, so that it needs nothing beside it.

/// keel/reward/worker.py
std::string_view python_worker();
/// The executable keel-sandbox (sandbox/main.cpp).
std::string_view sandbox_program();

}  // namespace keel
