// Any bytes as a configuration in YAML and JSON, and as a setting of the command line. The result is an Error
// (kBadConfiguration), or a tree with a line for every value. Build and run: fuzz/README.md.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "fuzz/may_be_refused.h"
#include "keel/core/options/read_config.h"

namespace {

void may_be_refused(const auto& action) { keel::fuzz::may_be_refused(action, keel::ExitCode::kBadConfiguration); }

void look(const keel::ConfigTree& tree) {
  for (const auto& [path, line] : tree.lines) {
    if (keel::find_value(tree, path) == nullptr || line < 0) std::abort();
    keel::location_of(tree, path);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"run.yaml", "run.json"}) may_be_refused([&] { look(keel::parse_config(text, name)); });
  may_be_refused([&] {
    keel::ConfigTree tree = keel::parse_config(R"({"train": {"steps": 1}, "data": [1, {"a": 2}]})", "run.json");
    keel::apply_override(tree, text);
    look(tree);
  });
  return 0;
}
