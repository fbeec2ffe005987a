// Any bytes as a safetensors file: it is rejected as bad input, or every tensor can be read.
// Build and run: fuzz/README.md.

#include <cstdlib>

#include "fuzz/memory_file.h"
#include "keel/core/error.h"
#include "keel/model/formats/safetensors/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  keel::fuzz::set_input(data, size);
  try {
    const keel::SafetensorsFile file = keel::SafetensorsFile::open("input");
    for (const keel::TensorInfo& tensor : file.tensors()) {
      if (file.read(tensor.name).nbytes() != tensor.end - tensor.begin) std::abort();
      if (file.read_float32(tensor.name).nbytes() / sizeof(float) * at::elementSize(tensor.dtype) !=
          tensor.end - tensor.begin)
        std::abort();
    }
  } catch (const keel::Error& error) {
    if (error.code() != keel::ExitCode::kBadInput) std::abort();
  }
  return 0;
}
