// Any bytes as a GGUF file: it is rejected as bad input, or every tensor can be read. A model and a tokenizer in it are
// loaded or rejected in the same way. Build and run: fuzz/README.md.

#include <cstdlib>
#include <vector>

#include "fuzz/memory_file.h"
#include "fuzz/may_be_refused.h"
#include "keel/core/error.h"
#include "keel/model/formats/gguf/gguf_model.h"

namespace {

using keel::fuzz::may_be_refused;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  keel::fuzz::set_input(data, size);
  may_be_refused([&] {
    keel::GgufFile file = keel::GgufFile::open("input");
    for (const keel::GgufTensor& tensor : file.tensors()) {
      std::vector<float> values(static_cast<size_t>(tensor.elements()));
      file.read_into(tensor.name, values);
    }
    may_be_refused([&] { keel::tokenizer_from_gguf(file.metadata()); });
    const keel::GgufModel model(std::move(file));
    for (const keel::GgufParameter& parameter : model.parameters()) model.read(parameter);
  });
  return 0;
}
