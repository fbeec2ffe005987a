#pragma once

// What fuzz targets share: the input as the only file there is. memory_file.cpp takes the place of keel/core/files/file.cpp,
// since system calls would take most of the time; what is read is checked as strictly as a real file would be.

#include <cstddef>
#include <cstdint>

namespace keel::fuzz {

/// Makes these bytes what the next InputFile::open() opens, whatever its path; they must outlive it.
void set_input(const uint8_t* data, size_t size);

}  // namespace keel::fuzz
