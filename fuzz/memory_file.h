#pragma once

// The input as the only file, for all fuzz targets. memory_file.cpp replaces keel/core/files/file.cpp, since system calls
// would take most of the time; reads are checked like those of a real file.

#include <cstddef>
#include <cstdint>

namespace keel::fuzz {

/// Sets the contents that the next InputFile::open() returns for any path; the bytes must outlive it.
void set_input(const uint8_t* data, size_t size);

}  // namespace keel::fuzz
