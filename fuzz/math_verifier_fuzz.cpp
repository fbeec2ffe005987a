// libFuzzer target for the math verifier: the first line of the input is the gold, the rest the answer. Build
// and run: fuzz/README.md.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "libs/mathverify/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t newline = text.find('\n');
  const std::string_view gold = text.substr(0, newline);
  const std::string_view answer = newline == std::string_view::npos ? gold : text.substr(newline + 1);
  // A small budget, to exceed it often: the code path is the same as for the full budget.
  constexpr uint64_t kSteps = 50'000;
  if (keel::verify_math(gold, answer, kSteps).steps > kSteps) std::abort();
  return 0;
}
