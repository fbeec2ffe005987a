// Any bytes as a file of a run: metrics.jsonl, samples.jsonl and config.yaml, which the report reads, or the
// manifest.json and the state of a checkpoint. They are read, or rejected as bad input. Build and run: fuzz/README.md.
//
// The first byte selects the file.

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "fuzz/may_be_refused.h"
#include "keel/core/error.h"
#include "keel/core/files/atomic_directory.h"
#include "keel/core/json_reader.h"
#include "keel/record/run_data.h"
#include "keel/train/checkpoint/state.h"

namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"metrics.jsonl", "samples.jsonl", "config.yaml", "manifest.json"};

const fs::path& folder() {
  static const fs::path path = [] {
    std::string name = "/dev/shm/keel-fuzz-XXXXXX";  // memory
    if (mkdtemp(name.data()) == nullptr) std::abort();
    return fs::path(name);
  }();
  return path;
}

void put(const char* name, std::string_view bytes) { std::ofstream(folder() / name, std::ios::binary) << bytes; }

using keel::fuzz::may_be_refused;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t which = data[0] % 5;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (which < 4) {
    put("metrics.jsonl", "{\"phase\":\"rl\",\"step\":1,\"reward/mean\":1}\n");
    put(kNames[which], text);
    if (which == 3) keel::find_manifest_mismatch(folder(), {});
    may_be_refused([&] {
      keel::summarize(keel::read_run(folder()));
    });
  } else if (const auto tree = keel::try_parse_json(text)) {
    may_be_refused([&] { keel::state_from_json(*tree, "state.json"); });
  }
  return 0;
}
