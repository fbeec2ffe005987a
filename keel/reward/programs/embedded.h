#pragma once

#include <string>
#include <string_view>

#include "keel/core/files/file.h"

namespace keel {

// Files that are part of the program, so that it needs nothing beside it.

/// keel/reward/programs/worker.py
std::string_view python_worker();
/// code_values.py and code_program.py: runs in the interpreter of a program under test.
std::string code_program();
/// code_values.py and code_judge.py: runs in the interpreter of the judge.
std::string code_judge();
/// The executable keel-sandbox (sandbox/main.cpp).
std::string_view sandbox_program();

/// A file without a name, at its beginning; it may be executed.
FileHandle file_in_memory(const char* name, std::string_view bytes);
/// By our own number: a child has closed its copy when it looks.
std::string path_for_children(const FileHandle& file);

}  // namespace keel
