#pragma once

#include <string>
#include <string_view>

#include "keel/core/files/file.h"

namespace keel {

// Files that are embedded in the executable.

/// keel/reward/programs/worker.py
std::string_view python_worker();
/// code_values.py and code_program.py: runs in the interpreter of a program under test.
std::string code_program();
/// code_values.py and code_test_runner.py: runs in the interpreter of the test runner.
std::string code_test_runner();
/// The executable keel-sandbox (sandbox/main.cpp).
std::string_view sandbox_program();

/// Creates an executable file in memory (memfd_create), positioned at its start.
FileHandle create_memory_file(const char* name, std::string_view bytes);
/// A path by which children can open the file, through /proc/PID of this process.
std::string path_for_children(const FileHandle& file);

}  // namespace keel
